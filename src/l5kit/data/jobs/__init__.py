"""Jobs on scenes of a log, and folders of runs: claimed by one process, continued after a kill, checked by receipts."""
