"""Images: patches, multi-focus fusion, super-resolution."""
