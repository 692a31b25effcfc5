# Optional libraries.  Each has an option MILLRACE_WITH_<NAME>: AUTO (built in where it is found), ON
# (required) or OFF (left out); what MILLRACE_WITH says holds for all that are AUTO.
#
# The sources that call a library are named in their room's room.cmake by mr_needs.  Where the library is
# left out, so are they; callers then get the reason (base/feature.h) from X_without.c, which is built in
# place of X.c, or from the section MR_WITHOUT_NAME of the room's without.c.

set(MILLRACE_WITH AUTO CACHE STRING "what AUTO means for the optional libraries: AUTO, ON or OFF")
mr_choice(MILLRACE_WITH AUTO ON OFF)
set(MR_FEATURE_ROWS "")
set(MR_FEATURES_IN "")
set(MR_FEATURES_OUT "")

# mr_feature(NAME LIBRARY text PACKAGES Debian's... MODULES pkg-config's... [PROGRAM name] [FILE path] GIVES text)
# Sets MR_HAS_<NAME>, MR_<NAME> to what a target links, and MR_<NAME>_MODULES to the modules; where the library is left
# out both are empty.
function(mr_feature name)
  cmake_parse_arguments(A "" "LIBRARY;GIVES;PROGRAM;FILE" "PACKAGES;MODULES" ${ARGN})
  list(JOIN A_PACKAGES " " packages)
  set(MILLRACE_WITH_${name} AUTO CACHE STRING "${A_LIBRARY} (${A_GIVES}): AUTO, ON or OFF")
  set_property(CACHE MILLRACE_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  mr_choice(MILLRACE_WITH_${name} AUTO ON OFF)
  set(want "${MILLRACE_WITH_${name}}")
  if(want STREQUAL "AUTO")
    set(want "${MILLRACE_WITH}")
  endif()

  set(has FALSE)
  if(want STREQUAL "AUTO" OR want)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${A_MODULES})
    set(has ${${name}_FOUND})
    if(A_PROGRAM)
      find_program(MR_${name}_PROGRAM ${A_PROGRAM})
    endif()
    if((A_PROGRAM AND NOT MR_${name}_PROGRAM) OR (A_FILE AND NOT EXISTS ${A_FILE}))
      set(has FALSE)
    endif()
    if(NOT has AND NOT want STREQUAL "AUTO")
      message(FATAL_ERROR "${A_LIBRARY} is required by MILLRACE_WITH_${name}=ON and not found: install ${packages}, or set "
        "MILLRACE_WITH_${name}=OFF to do without ${A_GIVES}")
    endif()
  endif()

  set(version NULL)
  set(MR_${name} "" PARENT_SCOPE)
  set(MR_${name}_MODULES "" PARENT_SCOPE)
  if(has)
    set(MR_${name} PkgConfig::${name} PARENT_SCOPE)
    set(MR_${name}_MODULES ${A_MODULES} PARENT_SCOPE)
    set(version "")
    foreach(module ${A_MODULES})
      list(APPEND version "${${name}_VERSION}${${name}_${module}_VERSION}") # the first with one module, else the second
    endforeach()
    list(JOIN version ", " version)
    set(version "\"${version}\"")
    set(MR_FEATURES_IN "${MR_FEATURES_IN};${A_LIBRARY}" PARENT_SCOPE)
  else()
    set(MR_FEATURES_OUT "${MR_FEATURES_OUT};${A_LIBRARY} (${A_GIVES})" PARENT_SCOPE)
  endif()
  set(MR_HAS_${name} ${has} PARENT_SCOPE)
  set(MR_FEATURE_ROWS "${MR_FEATURE_ROWS}    {\"${name}\", \"MILLRACE_WITH_${name}\", \"${A_LIBRARY}\", \"${packages}\",
     \"${A_GIVES}\", ${version}},\n" PARENT_SCOPE)
endfunction()

# After the last feature: the table for the program, and a line or two for who configures.
function(mr_features_end)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/features.c @ONLY CONTENT
"#include \"base/feature.h\"

const mr_feature_t mr_features[] = {
@MR_FEATURE_ROWS@    {0}};
")
  foreach(list IN ITEMS IN OUT)
    list(REMOVE_ITEM MR_FEATURES_${list} "")
    list(JOIN MR_FEATURES_${list} ", " text_${list})
  endforeach()
  if(text_IN)
    message(STATUS "millrace with ${text_IN}")
  endif()
  if(text_OUT)
    message(STATUS "millrace without ${text_OUT}")
  endif()
endfunction()

# mr_needs(TARGET "NAME[;NAME...]" FILE...): these sources of the target, a room or a part of one, call these libraries.
function(mr_needs target names)
  set(has TRUE)
  foreach(name ${names})
    if(NOT MR_HAS_${name})
      set(has FALSE)
    endif()
  endforeach()
  get_target_property(sources ${target} SOURCES)
  foreach(file ${ARGN})
    set(path ${CMAKE_SOURCE_DIR}/${file})
    list(FIND sources ${path} at)
    if(at LESS 0)
      message(FATAL_ERROR "${file} is no source of ${target}, which mr_needs says")
    endif()
    string(REGEX MATCH "^[^/]+" room ${file})
    if(has)
      string(REGEX REPLACE "\\.c$" "_without.c" path ${path})
    endif()
    list(REMOVE_ITEM sources ${path})
  endforeach()
  set(without ${CMAKE_SOURCE_DIR}/${room}/without.c)
  if(NOT has AND EXISTS ${without})
    list(JOIN names "_" word)
    set_property(SOURCE ${without} APPEND PROPERTY COMPILE_DEFINITIONS MR_WITHOUT_${word})
  endif()
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()
