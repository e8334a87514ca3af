"""The file format of models, statistics and calibrations: frozen records as safetensors files."""
