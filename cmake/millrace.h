/* All of millrace, for programs built against the installed library, in C11 or later and C++17 or
   later: the tensor graph, the stream graph, and the formats and generators that both use.

   What this header includes is what is installed. */
#ifndef MILLRACE_H
#define MILLRACE_H

#include "base/index_shuffle.h"
#include "base/ledger.h"
#include "base/metric.h"
#include "base/npy.h"
#include "base/philox.h"
#include "base/safetensors.h"
#include "base/seedseq.h"
#include "base/threefry.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "metrics/report.h"
#include "model/model.h"
#include "model/ops/rules.h"
#include "model/parse/parse.h"
#include "pipeline/graph/graph.h"
#include "pipeline/graph/link_end.h"
#include "pipeline/records/chain.h"
#include "pipeline/run/commit.h"
#include "pipeline/stage_filter.h"
#include "pipeline/stage_join.h"
#include "pipeline/stage_map.h"
#include "pipeline/stage_order.h"
#include "pipeline/stage_source.h"
#include "pipeline/stage_step.h"
#include "pipeline/stage_walk.h"
#include "pipeline/state.h"
#include "plugins/plugin.h"
#include "pull/dlpack.h"
#include "pull/loader.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

#endif
