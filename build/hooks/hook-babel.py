"""Collects the CLDR data that the program's texts need, instead of all locale data of Babel.

Collected are the tables in `TABLES`, for the languages of the program and the locales that these inherit from. All
locale data has 33 MB, that of these languages 7 MB. Most of the 7 MB are names of currencies, units and time zones,
which the program does not use.
"""

import os
import pickle
from pathlib import Path

from babel import localedata
from babel.core import get_global
from PyInstaller.utils.hooks import collect_data_files

from imgproc_local.domain.languages import LANGUAGES

hiddenimports = ["babel.dates"]  # imported by the pickled data

TABLES = {"locale_id", "months", "datetime_skeletons", "list_patterns", "languages", "territories"}

needed = set(LANGUAGES)
# a locale inherits from its code without the last part ("pt" for "pt_BR") and at last from "root", with exceptions
parent_exceptions = get_global("parent_exceptions")
while ancestors := {parent_exceptions.get(code) or code.rpartition("_")[0] or "root" for code in needed} - needed:
    needed |= ancestors

folder = Path(os.environ["IMGPROC_FREEZE_SCRATCH"]) / "locale-data"
folder.mkdir()
for code in sorted(needed):
    whole = pickle.loads((Path(localedata.__file__).parent / "locale-data" / f"{code}.dat").read_bytes())
    needed_tables = {name: whole[name] for name in whole if name in TABLES}
    (folder / f"{code}.dat").write_bytes(pickle.dumps(needed_tables, 2))

datas = [*collect_data_files("babel", includes=["global.dat"]), (str(folder), "babel/locale-data")]
