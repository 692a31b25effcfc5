# The installed library: all rooms but the program in one library, its headers, and what pkg-config
# and find_package need to know.  Static, or with -DBUILD_SHARED_LIBS=ON shared.
include(CMakePackageConfigHelpers)

get_property(objects GLOBAL PROPERTY MR_OBJECTS)
if(BUILD_SHARED_LIBS)
  add_library(millrace_library SHARED ${objects})
  target_link_libraries(millrace_library PRIVATE mr_loaders mr_stages mr_links mr_ranks mr_sinks mr_plugins
    mr_pull)
  set_target_properties(millrace_library PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
  target_link_options(millrace_library PRIVATE -Wl,--no-undefined
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/millrace.map)
  # A program that links the shared library names none of the libraries below it.
  set(MR_PC_REQUIRES "Requires.private:")
  set(MR_PC_LIBS "Libs: -L\${libdir} -lmillrace -lm\nLibs.private: -ldnnl -lgomp -lpthread${MR_CUDA_PC}")
else()
  add_library(millrace_library STATIC ${objects})
  set(MR_PC_REQUIRES "Requires:")
  set(MR_PC_LIBS "Libs: -L\${libdir} -lmillrace -ldnnl -lgomp -lpthread -lm${MR_CUDA_PC}")
endif()
set_target_properties(millrace_library PROPERTIES OUTPUT_NAME millrace LINKER_LANGUAGE C)

# What the library's objects call, by pkg-config's names; oneDNN has none and stands in the .pc itself.
list(JOIN MR_REQUIRES " " MR_REQUIRES)
configure_file(cmake/millrace.pc.in millrace.pc @ONLY)
configure_file(cmake/millrace-plugin.pc.in millrace-plugin.pc @ONLY)
configure_file(cmake/millraceConfig.cmake.in millraceConfig.cmake @ONLY)
write_basic_package_version_file(millraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS millrace RUNTIME DESTINATION bin)
install(TARGETS millrace_library ARCHIVE DESTINATION lib LIBRARY DESTINATION lib)
if(SKBUILD) # the wheel of python/ holds the library beside its modules; a wheel has no links, so that it is one file
  set_target_properties(millrace_library PROPERTIES VERSION 0)
  install(TARGETS millrace_library LIBRARY DESTINATION millrace COMPONENT python NAMELINK_SKIP)
endif()
install(CODE "set(source \"${CMAKE_SOURCE_DIR}\")")
install(SCRIPT cmake/install_headers.cmake)
install(FILES ${CMAKE_BINARY_DIR}/millrace.pc ${CMAKE_BINARY_DIR}/millrace-plugin.pc DESTINATION lib/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/millraceConfig.cmake ${CMAKE_BINARY_DIR}/millraceConfigVersion.cmake
  DESTINATION lib/cmake/millrace)
install(DIRECTORY examples/ DESTINATION share/millrace/examples
  PATTERN "*.sbatch" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(DIRECTORY share/ DESTINATION share/millrace)
