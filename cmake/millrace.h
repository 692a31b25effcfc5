/* All of the tensor graph of millrace, for programs built against the installed library.  The
   stream graph's headers stand beside it: "pipeline/stage.h" for one's own stages. */
#ifndef MILLRACE_H
#define MILLRACE_H

#include "model/model.h"
#include "model/ops/rules.h"

#endif
