"""Dictionary learning behind the estimators: the loop, the updates of atoms, starts, schedules, checkpoints."""
