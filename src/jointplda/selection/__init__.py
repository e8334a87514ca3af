"""Settings chosen, and calibration fitted, on training speakers that the models scoring them have not seen."""
