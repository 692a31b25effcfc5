# Toolchain: builds for arm64 on another Debian machine (packages gcc-aarch64-linux-gnu and the
# libraries as NAME:arm64), and runs the tests through qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# libdnnl-dev stands for one architecture at a time; its headers serve both, its link is missing.
set(DNNL_LIBRARY /usr/lib/aarch64-linux-gnu/libdnnl.so.2 CACHE FILEPATH "")
set(DNNL_INCLUDE /usr/include CACHE PATH "")
