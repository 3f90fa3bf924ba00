"""The registry of methods: one line a method, the name of its file and of its class."""

CLASS_NAMES = {
    "lsh": "LSH",
    "sh": "SH",
    "itq": "ITQ",
    "knnh": "KNNH",
    "sp": "SP",
    "sgh": "SGH",
    "agh": "AGH",
    "oeh": "OEH",
    "och": "OCH",
    "ch": "CH",
    "rssh": "RSSH",
    "jsh": "JSH",
    "psh": "PSH",
    "jpsh": "JPSH",
    "sah": "SAH",
    "abh": "ABH",
}
"""File ``hashers/<name>.py`` -> class in it, in the order of lists and tables. The file's name is also the method's
name on the command line and in experiments. The class is exported by :mod:`hashlearn`."""
