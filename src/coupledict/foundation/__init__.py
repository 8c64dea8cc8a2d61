"""What everything else builds on: arrays and their number types, views, checks of parameters, progress reports."""
