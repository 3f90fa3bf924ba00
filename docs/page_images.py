"""Make the pictures of the page in ``docs/images`` again, over a folder of photographs.

    python docs/page_images.py photos/

The pictures in the repository show 261 photographs and wallpapers from packages of Debian: those of the activities of
gcompris-qt-data, in folders by what they show, and wallpapers of mate-backgrounds, gnome-backgrounds,
lomiri-wallpapers (16.04 and 20.04) and plasma-workspace-wallpapers, the longer side scaled to 1,600 pixels. It needs
``pip install 'hashlearn[app]' playwright`` and Chromium.
"""

import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1280, 800


def main(folder: str, query: str | None) -> None:
    command = [sys.executable, "-u", "-m", "hashlearn", "app", folder, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"Open (http://\S+)", server.stdout.readline())
            if found is None:
                raise SystemExit("hashlearn app did not start")
            with sync_playwright() as driver:
                program = shutil.which("chromium") or shutil.which("google-chrome")
                browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
                page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
                take(page, found[1], query)
                browser.close()
        finally:
            server.terminate()


def take(page: Page, address: str, query: str | None) -> None:
    """The home with its map, the results of a query, and the same query as its code sees it."""
    page.set_default_timeout(300_000)
    page.goto(address)
    while page.locator("[data-job]").count():
        page.wait_for_timeout(500)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(5_000)  # the pictures on the map
    keep(page, "app-explore")
    page.goto(f"{address}/?id={query}" if query else f"{address}/page/random")
    page.wait_for_load_state("networkidle")
    keep(page, "app-search")
    page.get_by_role("link", name="How the codes see it").click()
    page.wait_for_load_state("networkidle")
    keep(page, "app-inside")


def keep(page: Page, name: str) -> None:
    path = IMAGES / f"{name}.webp"
    with Image.open(BytesIO(page.screenshot())) as image:
        image.convert("RGB").save(path, quality=85, method=6)
    print(path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
