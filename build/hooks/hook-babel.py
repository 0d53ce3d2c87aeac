"""Collects the CLDR data that the program's texts need: few tables, of its languages and the locales they inherit from.

Complete, CLDR has 33 MB; the data of these languages has 7 MB. Most of it are names of countries, currencies, units and
time zones, which are not used.
"""

import os
import pickle
from pathlib import Path

from babel import localedata
from babel.core import get_global
from PyInstaller.utils.hooks import collect_data_files

from imgproc_local.domain.languages import LANGUAGES

hiddenimports = ["babel.dates", "babel.plural"]  # imported by the pickled data

TABLES = {
    *("locale_id", "plural_form", "months", "list_patterns"),
    *("default_numbering_system", "numbering_systems", "number_symbols", "decimal_formats", "unit_patterns"),
}
UNIT = "duration-second"

needed = set(LANGUAGES)
parents = get_global("parent_exceptions")
while ancestors := {parents.get(code) or code.rpartition("_")[0] or "root" for code in needed} - needed:
    needed |= ancestors

folder = Path(os.environ["IMGPROC_FREEZE_SCRATCH"]) / "locale-data"
folder.mkdir()
for code in sorted(needed):
    whole = pickle.loads((Path(localedata.__file__).parent / "locale-data" / f"{code}.dat").read_bytes())
    needed_tables = {name: whole[name] for name in whole if name in TABLES}
    if "unit_patterns" in needed_tables:
        patterns = needed_tables["unit_patterns"]
        needed_tables["unit_patterns"] = {name: patterns[name] for name in patterns if name == UNIT}
    (folder / f"{code}.dat").write_bytes(pickle.dumps(needed_tables, 2))

datas = [*collect_data_files("babel", includes=["global.dat"]), (str(folder), "babel/locale-data")]
