/* Includes all of the tensor graph: build or parse a graph, transform it, compile it, run it. */
#ifndef MR_MODEL_MODEL_H
#define MR_MODEL_MODEL_H

#include "base/random.h"
#include "model/call/jit.h"
#include "model/call/memory_profile.h"
#include "model/call/pmap.h"
#include "model/call/shard_map.h"
#include "model/control/control.h"
#include "model/control/table.h"
#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/exec/mesh_comm.h"
#include "model/ir/fn.h"
#include "model/mesh/placement_rules.h"
#include "model/nn/loss.h"
#include "model/nn/params.h"
#include "model/nn/vit.h"
#include "model/ops/lax.h"
#include "model/optim/apply_if_finite.h"
#include "model/optim/dynamic_scale.h"
#include "model/optim/optim.h"
#include "model/optim/schedule.h"
#include "model/parse/parse.h"
#include "model/partition/partition.h"
#include "model/train/train.h"
#include "model/transforms/transforms.h"
#include "model/zoo/zoo.h"

#endif
