"""The C extensions, which pyproject.toml can't describe."""

import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, ExecError, PlatformError

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
FLAGS = {
    # no fused multiplication and addition: scores are the same on every processor
    "unix": ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"],
    "msvc": ["/std:c11", "/O2", "/fp:precise"],
}


class BuildForCompiler(build_ext):
    """Compiles with the flags of the compiler that setuptools uses."""

    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = FLAGS.get(self.compiler.compiler_type, [])
        try:
            super().build_extension(ext)
        except (CompileError, ExecError, PlatformError) as error:
            raise SystemExit(
                f"The C extension {ext.name} can't be compiled: {error}. Install a C compiler and Python's headers"
                " (on Debian and Ubuntu: gcc and python3-dev), or install the wheel, which needs neither."
            ) from error


setup(
    ext_modules=[
        Extension(
            f"imgproc_local.codecs.{name}",
            [f"imgproc_local/codecs/{name.replace('.', '/')}.c"],
            depends=["imgproc_local/codecs/_extension.h"],
            py_limited_api=not FREE_THREADED,
        )
        for name in ("quality._ssimulacra2", "jpeg._requantize", "_webp_chroma")
    ],
    cmdclass={"build_ext": BuildForCompiler},
    options={
        "build": {"build_base": ".build"},  # the folder build/ is part of the repository
        "bdist_wheel": {} if FREE_THREADED else {"py_limited_api": "cp311"},
    },
)
