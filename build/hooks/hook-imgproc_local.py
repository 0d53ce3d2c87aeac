"""Commands are imported by name; tables, SQL and the page are read as files. PyInstaller detects neither."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

hiddenimports = collect_submodules("imgproc_local")
datas = collect_data_files("imgproc_local", excludes=["**/*.pyi", "**/*.c", "py.typed"])
