mr_needs(mr_sinks CURL sinks/alert_post.c)
mr_needs(mr_sinks MICROHTTPD sinks/http.c sinks/http_address.c sinks/prometheus.c sinks/web.c sinks/web_graph.c
  sinks/web_log.c sinks/web_picture.c sinks/web_stream.c)
mr_needs(mr_sinks ZMQ sinks/subscribers.c sinks/subscribers_listener.c sinks/subscribers_relay.c sinks/publish.c)
mr_needs(mr_sinks PNG sinks/picture_png.c)
mr_needs(mr_sinks PROTOBUF sinks/event_steps.c sinks/tensorboard.c)

# The event format as C, by protoc-c; its text is not ours to warn about.
if(MR_HAS_PROTOBUF)
  set(EVENTS ${CMAKE_BINARY_DIR}/generated/events.pb-c)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  add_custom_command(OUTPUT ${EVENTS}.c ${EVENTS}.h
    COMMAND ${MR_PROTOBUF_PROGRAM} --c_out=${CMAKE_BINARY_DIR}/generated --proto_path=${CMAKE_SOURCE_DIR}/sinks
      ${CMAKE_SOURCE_DIR}/sinks/events.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/sinks/events.proto)
  target_sources(mr_sinks PRIVATE ${EVENTS}.c ${EVENTS}.h)
  set_source_files_properties(${EVENTS}.c PROPERTIES COMPILE_OPTIONS "-w")
  target_include_directories(mr_sinks SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
endif()

# The live page's files as a table of bytes: our own, and Dygraphs as Debian ships it.
if(MR_HAS_MICROHTTPD)
  set(WEB_TABLE "")
  set(WEB_BYTES "")
  set(WEB_N 0)
  function(web_asset path type file)
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    math(EXPR n "${WEB_N} + 1")
    set(WEB_N ${n} PARENT_SCOPE)
    set(WEB_BYTES "${WEB_BYTES}static const unsigned char asset_${n}[] = {${bytes}};\n" PARENT_SCOPE)
    set(WEB_TABLE "${WEB_TABLE}    {\"${path}\", \"${type}; charset=utf-8\", asset_${n}, sizeof asset_${n}},\n" PARENT_SCOPE)
  endfunction()
  web_asset(/ text/html ${CMAKE_SOURCE_DIR}/sinks/web/index.html)
  web_asset(/app.js text/javascript ${CMAKE_SOURCE_DIR}/sinks/web/app.js)
  web_asset(/style.css text/css ${CMAKE_SOURCE_DIR}/sinks/web/style.css)
  web_asset(/favicon.svg image/svg+xml ${CMAKE_SOURCE_DIR}/sinks/web/favicon.svg)
  web_asset(/dygraph.js text/javascript ${DYGRAPHS}/dygraph.min.js)
  web_asset(/dygraph.css text/css ${DYGRAPHS}/dygraph.min.css)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/web_assets.c @ONLY CONTENT
"#include \"sinks/web_private.h\"

@WEB_BYTES@
const mr_web_asset_t mr_web_assets[] = {
@WEB_TABLE@    {0}};
")
  target_sources(mr_sinks PRIVATE ${CMAKE_BINARY_DIR}/generated/web_assets.c)
endif()
target_link_libraries(mr_sinks PRIVATE ${CMAKE_DL_LIBS})
