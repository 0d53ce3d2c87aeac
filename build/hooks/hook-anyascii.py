"""Its tables are in a package without code that is imported by name only."""

from PyInstaller.utils.hooks import collect_data_files

hiddenimports = ["anyascii._data"]
datas = collect_data_files("anyascii._data")
