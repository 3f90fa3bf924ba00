"""Print the technical report of the built site as a PDF: ``make report``."""

import subprocess
import sys

from check_site import SITE, chromium

PAGE = SITE / "explanation" / "report.html"
PDF = SITE.parent / "report.pdf"
FORMULAS_MILLISECONDS = 60_000
"""Time of the page's own clock for MathJax to draw the formulas."""


def main() -> int:
    if not PAGE.is_file():
        print(f"{PAGE} is missing. Build the documentation with: make docs")
        return 1
    try:
        program = chromium()
    except FileNotFoundError:
        print("No Chromium found, which prints the report. On Debian: apt-get install chromium")
        return 1
    options = ["--headless", "--no-sandbox", "--no-pdf-header-footer", f"--virtual-time-budget={FORMULAS_MILLISECONDS}"]
    subprocess.run([program, *options, f"--print-to-pdf={PDF}", PAGE.as_uri()], check=True, stderr=subprocess.DEVNULL)
    print(PDF)
    return 0


if __name__ == "__main__":
    sys.exit(main())
