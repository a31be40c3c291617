"""``python -m imgproc_app.cli``."""

from imgproc_app.cli import main

main()
