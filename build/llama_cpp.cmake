# Compiles llama-cpp-python in less time. With pip: CMAKE_ARGS=-DCMAKE_PROJECT_llama_cpp_INCLUDE=<this file>

# llama.cpp's library for its own programs, with their options, chat templates and HTTP server, is left out, because the
# Python package does not use it. The package sets the option of this name in CMake's cache; a variable has precedence.
set(LLAMA_BUILD_COMMON OFF)

# The libraries that compute, ggml's, are optimized as always. The code that loads models and prepares the computation
# is optimized less: a picture takes as long as before, even with the smallest model, where this code has the largest
# share.
function(optimize_less)
  foreach(target llama mtmd)
    if(TARGET ${target} AND NOT MSVC)
      target_compile_options(${target} PRIVATE -O1)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL optimize_less)

# If this is set, as in build/freeze.py, ggml compiles for a processor without any extension, unless each is named.
unset(ENV{SOURCE_DATE_EPOCH})

# What the package was compiled with: the digest of this file, and the settings. build/freeze.py reads it.
separate_arguments(settings UNIX_COMMAND "$ENV{CMAKE_ARGS}")
list(FILTER settings EXCLUDE REGEX CMAKE_PROJECT_llama_cpp_INCLUDE)
file(SHA256 "${CMAKE_CURRENT_LIST_FILE}" digest)
file(WRITE "${CMAKE_BINARY_DIR}/compiled-with.txt" "${digest};${settings}")
install(FILES "${CMAKE_BINARY_DIR}/compiled-with.txt" DESTINATION llama_cpp)
