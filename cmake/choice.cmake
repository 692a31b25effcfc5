# mr_choice(OPTION word...): refuses a value of the option that is none of the words.  CMake would take any other word
# for ON.
function(mr_choice option)
  list(FIND ARGN "${${option}}" at)
  if(at LESS 0)
    list(JOIN ARGN ", " words)
    message(FATAL_ERROR "${option}=${${option}}: expected one of ${words}")
  endif()
endfunction()
