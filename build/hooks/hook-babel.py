"""CLDR's data of the languages offered, and of those that they inherit from; all of it would be 33 MB."""

from babel.core import get_global
from imgproc_local.domain.languages import LANGUAGES
from PyInstaller.utils.hooks import collect_data_files

hiddenimports = ["babel.dates", "babel.plural"]  # named in the pickled data

needed = {"root"}
for code in LANGUAGES:
    needed.add(code)
    while code != "root":
        code = get_global("parent_exceptions").get(code) or code.rpartition("_")[0] or "root"
        needed.add(code)

datas = collect_data_files("babel", includes=["global.dat", *(f"locale-data/{name}.dat" for name in sorted(needed))])
