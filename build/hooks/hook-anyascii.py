"""Its tables lie in a package that holds nothing else, and that is named only in a string."""

from PyInstaller.utils.hooks import collect_data_files

hiddenimports = ["anyascii._data"]
datas = collect_data_files("anyascii._data")
