"""The documentation as a site: ``make docs``. Nothing on it is fetched from another host."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parent
MATHJAX = DOCS / "_build" / "vendor" / "mathjax"
sys.path.insert(0, str(DOCS))

from registry_pages import write_pages  # noqa: E402

from hashlearn import __version__  # noqa: E402

if not (MATHJAX / "tex-svg.js").is_file():
    raise FileNotFoundError(f"{MATHJAX} has no tex-svg.js; build the documentation with: make docs")

project = "hashlearn"
author = "the hashlearn developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.typer",
]
exclude_patterns = ["_build", "tutorials", "reference/generated/README.md"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autosummary_generate = True
autodoc_typehints = "none"
# The adapters are documented also where their frameworks are not installed.
frameworks = ("haystack", "huggingface_hub", "langchain_core", "llama_index", "mteb")
autodoc_mock_imports = [name for name in frameworks if find_spec(name) is None]
if "haystack" in autodoc_mock_imports:  # autodoc's own stand-in for a decorator hides the signatures of methods
    haystack = ModuleType("haystack")
    haystack.__path__, haystack.Document = [], object
    haystack.component = lambda component: component
    haystack.component.output_types = lambda **outputs: lambda method: method
    sys.modules["haystack"] = haystack
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "tutorials",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "capture_repr": (),
}

mathjax_path = "tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}  # the menu can fetch what reads formulas aloud
html_theme = "pydata_sphinx_theme"
html_title = "hashlearn"
html_static_path = ["_static", str(MATHJAX)]
html_css_files = ["hashlearn.css"]
html_js_files = ["hashlearn.js"]
html_show_sourcelink = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses on the file system
html_theme_options = {
    "navbar_align": "left",
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
}


def setup(app):
    app.connect("config-inited", lambda app, config: write_pages(DOCS))
