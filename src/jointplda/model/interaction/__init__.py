"""Speaker and channel interact: cells, their statistics, and the forms that the interaction takes in a fit."""
