/* Graph texts that commands write for the user.  They are texts and no comparisons: what the
   program asks about a stage it asks by role. */
#include "apps/cli/texts.h"

const char mr_usual_data[] = "data/cifar-10-batches-bin";

const char mr_eval_text[] = "eval-step name=%s evaluations=1 %s. ! progress";
const char mr_alone_text[] = "data. ! normalize %s ! batch 256";

const char mr_predict_text[] = "predict name=%s";
const char mr_unlabelled_text[] =
    "%s name=data\n! sequential epochs=1\n%s ! batch 64 name=batches\n";
const char mr_normal_of_text[] = "  ! normalize %s\n";

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

const mr_kind_text_t mr_kind_texts[MR_KINDS] = {
    [MR_KIND_PICTURES] = {"folder", "path", "", "pictures in a folder for each class"},
    [MR_KIND_CIFAR10] = {"cifar10", "path", "", "CIFAR-10"},
    [MR_KIND_CIFAR100] = {"cifar100", "path", "", "CIFAR-100"},
    [MR_KIND_TAR] = {"tar", "files", ".tar", "tar archives of WebDataset"},
    [MR_KIND_TFRECORD] = {"tfrecord", "files", ".tfrecord .tfrecords", "TFRecord files"},
    [MR_KIND_ARRAYRECORD] = {"arrayrecord", "files", ".arrayrecord .array_record", "ArrayRecords"},
    [MR_KIND_MDS] = {"mds", "files", "", "shards of MosaicML Streaming"},
    [MR_KIND_LITDATA] = {"litdata", "files", "", "chunks of litdata"},
    [MR_KIND_BETON] = {"beton", "files", ".beton", "beton files of FFCV"},
    [MR_KIND_NPY] = {"npy", "images", ".npy", ".npy arrays"},
    [MR_KIND_NPZ] = {"npz", "files", ".npz", ".npz files"},
    [MR_KIND_SAFETENSORS] = {"safetensors", "files", ".safetensors", "safetensors files"},
    [MR_KIND_TABLE] = {"table", "files", ".csv", "CSV files"},
    [MR_KIND_TOKENS] = {"tokens", "files", ".bin", "files of tokens"},
};

const char mr_chosen_head_text[] =
    "# What `millrace train %s` has chosen: %s.\n"
    "# NAME=VALUE on the command line changes a variable or a setting; a copy of this file can be\n"
    "# changed as a whole and given to `millrace train --graph FILE`.\n\n"
    "let data   = %s\n%s"
    "let run    = runs/default\nlet seed   = 12\nlet epochs = %d\nlet batch  = %d\n\n";
const char mr_chosen_train_text[] =
    "%s name=data %s\n  ! shuffle seed=$seed epochs=$epochs\n%s"
    "  ! batch $batch drop-remainder name=batches\n  ! train-step name=train seed=$seed%s\n\n";
const char mr_chosen_valid_text[] =
    "%s name=%s-data %s\n  ! sequential epochs=%d\n%s"
    "  ! batch $batch name=%s-batches ! train.%s\n\n";
const char mr_chosen_tail_text[] =
    "train.metrics ! telemetry disk=$run\ntelemetry. ! progress\n"
    "telemetry. ! jsonl path=$run/metrics.jsonl\ntrain.state ! checkpoint dir=$run/checkpoints\n";
const char mr_let_data_text[] = "let data = \"%s\"\n";
const char mr_look_text[] = "%s %s ! shuffle seed=1 epochs=1 ! slice :64 ! batch 8 ! null";
const char mr_look_labels_text[] = "%s %s ! sequential epochs=1 ! select %s ! batch 256 ! null";
const char mr_most_classes_text[] = " classes=100000";
const char mr_decode_text[] = "  ! decode\n", mr_vary_text[] = "  ! flip p=0.5\n",
           mr_crop_text[] = "  ! resized-crop size=%d scale=0.35:1.0\n",
           mr_resize_text[] = "  ! resize %d ! center-crop %d\n",
           mr_normal_rgb_text[] = "  ! normalize preset=imagenet\n",
           mr_normal_text[] = "  ! normalize mean=0.5 std=0.25\n",
           mr_rename_text[] = "  ! rename %s:%s\n";
const char mr_step_vit_text[] = " patch=%d", mr_step_mlp_text[] = " model=mlp";

const mr_face_t mr_faces[] = {{"--tensorboard", "tensorboard dir='%s/tensorboard'"},
                              {"--prometheus", "prometheus"},
                              {"--web", "web run='%s'"},
                              {0}};
