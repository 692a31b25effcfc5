/* Graph texts that commands write for the user.  They are texts and no comparisons: what the
   program asks about a stage it asks by role. */
#include "apps/cli/texts.h"

const char mr_usual_data[] = "data/cifar-10-batches-bin";

const char mr_eval_text[] = "eval-step name=%s evaluations=1 %s. ! progress";
const char mr_alone_text[] = "data. ! normalize %s ! batch 256";

#define RECIPE                                                     \
  "flip p=0.5 ! resized-crop size=32 scale=0.9:1.0 ratio=0.9:1.1 " \
  "! normalize preset=cifar10 ! batch %lld drop-remainder"

const char mr_bench_source_text[] = "cifar10 path=\"%s\" split=train";
const char mr_bench_synthetic_text[] = "synthetic";
const char mr_bench_loader_text[] =
    "%s ! shuffle seed=12 epochs=0 ! " RECIPE " workers=%lld name=b ! null";
const char mr_bench_first_text[] = "%s ! shuffle seed=12 ! slice :%lld ! " RECIPE " ! null";
const char mr_bench_reader_text[] =
    "%s memory=0 ! shuffle seed=12 epochs=0 ! batch %lld drop-remainder workers=%lld name=b ! null";
const char mr_bench_hops_text[] =
    "count 0 ! identity ! identity ! identity ! identity ! identity ! identity name=b ! null";

const char mr_pack_index_text[] = "%s index=beside ! batch 1 ! null";
const char mr_pack_batch_text[] = "%.*s\n! batch %d workers=%lld name=pack\n";

const mr_face_t mr_faces[] = {{"--tensorboard", "tensorboard dir='%s/tensorboard'"},
                              {"--prometheus", "prometheus"},
                              {"--web", "web run='%s'"},
                              {0}};
