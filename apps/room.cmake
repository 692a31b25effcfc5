mr_needs(millrace "CURL;ARCHIVE" apps/data.c apps/fetch.c apps/unpack.c)
mr_needs(millrace CURL apps/top_page.c)
mr_needs(millrace NCURSES apps/top_screen.c)
mr_needs(millrace URING apps/doctor_ring.c)
mr_needs(millrace ZMQ apps/bench_link.c apps/keys.c apps/process_run.c apps/serve.c)
mr_needs(millrace PROTOBUF apps/mem_pprof.c)
target_compile_definitions(millrace PRIVATE MR_VERSION="${PROJECT_VERSION}")

# The default graph as a C string: one literal a line.
set(MR_GRAPH_FILE ${CMAKE_SOURCE_DIR}/examples/cifar10-vit.mr)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MR_GRAPH_FILE})
file(READ ${MR_GRAPH_FILE} MR_GRAPH_TEXT)
string(REPLACE "\\" "\\\\" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
string(REPLACE "\"" "\\\"" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
string(REPLACE "\n" "\\n\"\n    \"" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/default_graph.c @ONLY CONTENT
"#include \"apps/cli.h\"

const char mr_default_graph[] =
    \"@MR_GRAPH_TEXT@\";
")
target_sources(millrace PRIVATE ${CMAKE_BINARY_DIR}/default_graph.c)

# pprof's profile format as C, by protoc-c; its text is not ours to warn about.
if(MR_HAS_PROTOBUF)
  set(PPROF ${CMAKE_BINARY_DIR}/generated/pprof.pb-c)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  add_custom_command(OUTPUT ${PPROF}.c ${PPROF}.h
    COMMAND ${MR_PROTOBUF_PROGRAM} --c_out=${CMAKE_BINARY_DIR}/generated --proto_path=${CMAKE_SOURCE_DIR}/apps
      ${CMAKE_SOURCE_DIR}/apps/pprof.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/apps/pprof.proto)
  target_sources(millrace PRIVATE ${PPROF}.c ${PPROF}.h)
  set_source_files_properties(${PPROF}.c PROPERTIES COMPILE_OPTIONS "-w")
  target_include_directories(millrace SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
endif()
