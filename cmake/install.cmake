# The installed library: all rooms but the program in one archive, their headers, and what pkg-config
# and find_package need to know.
include(CMakePackageConfigHelpers)

set(objects "")
foreach(room base pipeline loaders model stages sinks)
  list(APPEND objects $<TARGET_OBJECTS:mr_${room}>)
endforeach()
add_library(millrace_archive STATIC ${objects})
set_target_properties(millrace_archive PROPERTIES OUTPUT_NAME millrace LINKER_LANGUAGE C)

# What the archive's objects call, by pkg-config's names; oneDNN has none and stands in the .pc itself.
string(REPLACE ";" " " MR_REQUIRES "${MR_REQUIRES}")
configure_file(cmake/millrace.pc.in millrace.pc @ONLY)
configure_file(cmake/millraceConfig.cmake.in millraceConfig.cmake @ONLY)
write_basic_package_version_file(millraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS millrace RUNTIME DESTINATION bin)
install(TARGETS millrace_archive ARCHIVE DESTINATION lib)
install(FILES cmake/millrace.h DESTINATION include/millrace)
install(DIRECTORY base pipeline loaders model stages sinks DESTINATION include/millrace
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "*_private.h" EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/millrace.pc DESTINATION lib/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/millraceConfig.cmake ${CMAKE_BINARY_DIR}/millraceConfigVersion.cmake
  DESTINATION lib/cmake/millrace)
install(DIRECTORY examples/ DESTINATION share/millrace/examples)
