# What a build needs. Each thing that is missing is told in a sentence or two that say how to get it.
set(a_wheel "or install a wheel, which needs no compiler: pip install --only-binary coupledict coupledict")

# scikit-build-core sets CXX to the compiler that Python was built with, unless the user did. Any other is as good where
# that one is absent. Whoever names one by CMAKE_CXX_COMPILER hears from CMake itself what is wrong with it.
include(CheckLanguage)
macro(look_for_compiler)
  check_language(CXX)
  if(NOT CMAKE_CXX_COMPILER)  # otherwise the next run would not look again
    unset(CMAKE_CXX_COMPILER)
    unset(CMAKE_CXX_COMPILER CACHE)
  endif()
endmacro()
look_for_compiler()
if(NOT CMAKE_CXX_COMPILER AND DEFINED ENV{CXX} AND Python_EXECUTABLE)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c
                          "import sysconfig; print((sysconfig.get_config_var('CXX') or '').split(' ')[0])"
                  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE compiler_of_python)
  if("$ENV{CXX}" STREQUAL compiler_of_python)
    unset(ENV{CXX})
    look_for_compiler()
  endif()
endif()
if(NOT CMAKE_CXX_COMPILER)
  set(named "")
  if(DEFINED ENV{CXX})
    set(named " (CXX names '$ENV{CXX}')")
  endif()
  message(FATAL_ERROR "coupledict is compiled when it is installed from source, and no C++ compiler that works was "
                      "found${named}. Install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; "
                      "macOS: xcode-select --install; Windows: Visual Studio Build Tools with 'C++ Clang tools'), "
                      "${a_wheel}")
endif()
enable_language(CXX)

if(CMAKE_CXX_COMPILER_ID STREQUAL "MSVC")
  message(FATAL_ERROR "MSVC's cl has no vector types, which the kernels are written with. Use clang-cl, which is in "
                      "Visual Studio's 'C++ Clang tools': cmake -T ClangCL (with pip, set "
                      "CMAKE_GENERATOR_TOOLSET=ClangCL), or CXX=clang-cl with Ninja, ${a_wheel}")
endif()
if(NOT "cxx_std_17" IN_LIST CMAKE_CXX_COMPILE_FEATURES)
  message(FATAL_ERROR "Expected a compiler that knows C++17, got ${CMAKE_CXX_COMPILER_ID} "
                      "${CMAKE_CXX_COMPILER_VERSION}. Install a newer one and name it in CXX, ${a_wheel}")
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang|AppleClang)$")
  message(FATAL_ERROR "Expected GCC or Clang, got ${CMAKE_CXX_COMPILER_ID}. "
                      "Set CXX to g++, clang++ or (on Windows) clang-cl, ${a_wheel}")
endif()

# Sizes and offsets have 64 bits, and files hold numbers as they lie in memory.
if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  math(EXPR bits "8 * ${CMAKE_SIZEOF_VOID_P}")
  message(FATAL_ERROR "coupledict needs a 64-bit system: expected pointers of 64 bits, got ${bits}. "
                      "Use a 64-bit Python, and a compiler for 64 bits.")
endif()
if(NOT CMAKE_CXX_BYTE_ORDER STREQUAL "LITTLE_ENDIAN")
  message(FATAL_ERROR "coupledict needs a little-endian processor (x86-64, ARM64, RISC-V, ppc64le): "
                      "expected LITTLE_ENDIAN, got ${CMAKE_CXX_BYTE_ORDER}. There is no way to install it on this one.")
endif()

# SKBUILD_SABI_COMPONENT is empty where the wheel is for one version of Python: before 3.12, and without a GIL.
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})
if(NOT Python_VERSION VERSION_GREATER_EQUAL 3.11)
  message(FATAL_ERROR "Expected Python 3.11 or newer, got '${Python_VERSION}' (${Python_EXECUTABLE}). "
                      "Install it, and use its pip.")
endif()
if(NOT Python_FOUND)
  message(FATAL_ERROR "The headers of Python ${Python_VERSION} (${Python_EXECUTABLE}) were not found. "
                      "Install them (Debian and Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel), "
                      "${a_wheel}")
endif()
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir RESULT_VARIABLE failed ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT)
if(failed)
  message(FATAL_ERROR "nanobind is not installed beside Python (${Python_EXECUTABLE}). "
                      "Install it (pip install nanobind), or let pip do so: leave out --no-build-isolation.")
endif()
find_package(nanobind CONFIG REQUIRED)
