"""anyascii imports its tables by name, as data files of a package without modules, which PyInstaller can't detect."""

from PyInstaller.utils.hooks import collect_data_files

hiddenimports = ["anyascii._data"]
datas = collect_data_files("anyascii._data")
