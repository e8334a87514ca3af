"""The beginning of the demo's report as a picture; needs chromium and chromedriver.

python examples/report_picture.py docs/images/report.png
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTH, HEIGHT = 1080, 1290


def main() -> None:
    """Run the demo and photograph the top of its page."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run([sys.executable, "-m", "jointplda", "demo", "--quiet", "--report", page], check=True)
        options = webdriver.ChromeOptions()
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking")
        for flag in (*flags, f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            browser.get(page.as_uri())
            browser.save_screenshot(sys.argv[1])
        finally:
            browser.quit()


if __name__ == "__main__":
    main()
