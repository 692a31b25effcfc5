# The event format as C, by protoc-c; its text is not ours to warn about.
find_program(PROTOC_C protoc-c REQUIRED)
set(EVENTS ${CMAKE_BINARY_DIR}/generated/events.pb-c)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
add_custom_command(OUTPUT ${EVENTS}.c ${EVENTS}.h
  COMMAND ${PROTOC_C} --c_out=${CMAKE_BINARY_DIR}/generated --proto_path=${CMAKE_SOURCE_DIR}/sinks
    ${CMAKE_SOURCE_DIR}/sinks/events.proto
  DEPENDS ${CMAKE_SOURCE_DIR}/sinks/events.proto)
target_sources(mr_sinks PRIVATE ${EVENTS}.c ${EVENTS}.h)
set_source_files_properties(${EVENTS}.c PROPERTIES COMPILE_OPTIONS "-w")
target_include_directories(mr_sinks SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
