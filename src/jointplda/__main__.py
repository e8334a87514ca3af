"""``python -m jointplda``."""

from jointplda.commands import main

main()
