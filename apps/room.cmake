mr_needs(mr_apps_data "CURL;ARCHIVE" apps/data/data.c apps/data/fetch.c apps/data/unpack.c)
mr_needs(mr_apps_look CURL apps/look/top_page.c)
mr_needs(mr_apps_look NCURSES apps/look/top_screen.c)
mr_needs(mr_apps_run URING apps/run/machine_report_ring.c)
mr_needs(mr_apps_run ZMQ apps/run/keys.c apps/run/process_run.c apps/run/serve.c)
mr_needs(mr_apps_bench ZMQ apps/bench/link.c)
foreach(target millrace mr_apps_run)
  target_compile_definitions(${target} PRIVATE MR_VERSION="${PROJECT_VERSION}")
endforeach()

# The default graph as a C string: one literal a line.
set(MR_GRAPH_FILE ${CMAKE_SOURCE_DIR}/examples/cifar10-vit.mr)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${MR_GRAPH_FILE})
file(READ ${MR_GRAPH_FILE} MR_GRAPH_TEXT)
string(REPLACE "\\" "\\\\" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
string(REPLACE "\"" "\\\"" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
string(REPLACE "\n" "\\n\"\n    \"" MR_GRAPH_TEXT "${MR_GRAPH_TEXT}")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/default_graph.c @ONLY CONTENT
"#include \"apps/cli/cli.h\"

const char mr_default_graph[] =
    \"@MR_GRAPH_TEXT@\";
")
target_sources(millrace PRIVATE ${CMAKE_BINARY_DIR}/default_graph.c)
