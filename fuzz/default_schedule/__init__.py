"""Default schedules of programs, for any machine: scheduled, interpreted, run."""
