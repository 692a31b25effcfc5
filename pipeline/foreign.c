/* Tables of other frameworks' names and value spellings, and the hints that sentences about unknown
   names and refused values end with. */
#include "pipeline/foreign.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { FOLDED_MAX = 64 };

/* names: lower case without '-' and '_', separated by blanks; all of a row have the same
   meaning. */
typedef struct row {
  const char *names, *text;
} row_t;

static const row_t stages[] = {
    {"take head", "stage \"limit\" ends a stream after some records: limit 1000"},
    {"skip drop", "stage \"slice\" skips the first records of an epoch: slice 1000:"},
    {"map lambda apply compose transform transforms sequential",
     "each transform is a stage, joined by \"!\": flip ! resized-crop ! normalize; a new one is a "
     "file in C (README.md, Adding a stage)"},
    {"videoscale scale", "stage \"resize\" does that: resize 256, or resize 224x224"},
    {"centercrop", "stage \"center-crop\" does that: center-crop 224"},
    {"randomcrop", "stage \"pad-crop\" does that: pad-crop 32 padding=4"},
    {"crop randomresizedcrop videocrop rrc",
     "stage \"resized-crop\" does that: resized-crop size=32 scale=0.9:1.0 ratio=0.9:1.1"},
    {"randomhorizontalflip horizontalflip hflip fliplr randomflip randomflipleftright mirror "
     "videoflip",
     "stage \"flip\" does that: flip p=0.5"},
    {"randomverticalflip verticalflip vflip flipud rotate randomrotation randomaffine "
     "randomperspective elastictransform augmix",
     "there is no such stage; rand-augment and trivial-augment turn and shear pictures, and a new "
     "one is a file in C (README.md, Adding a stage)"},
    {"colorjitter brightness contrast saturation hue",
     "stage \"color-jitter\" does that: color-jitter brightness=0.4 contrast=0.4 hue=0.1"},
    {"randomgrayscale gray grey togray", "stage \"grayscale\" does that: grayscale 0.1"},
    {"pad randompad", "stage \"pad-crop\" pads and crops: pad-crop 32 padding=4"},
    {"blur gaussblur", "stage \"gaussian-blur\" does that: gaussian-blur 23 sigma=0.1:2"},
    {"cutout coarsedropout", "stage \"random-erasing\" does that: random-erasing 0.5"},
    {"randaug", "stage \"rand-augment\" does that: rand-augment magnitude=9"},
    {"autoaug", "stage \"auto-augment\" does that: auto-augment imagenet"},
    {"trivialaugmentwide", "stage \"trivial-augment\" does that"},
    {"labelsmoothing onehotencode", "stage \"one-hot\" does that: one-hot smoothing=0.1"},
    {"totensor pilotensor totensorv2 toimage todtype convertimagedtype rescaling cast astype float "
     "videoconvert",
     "stage \"normalize\" makes floats: normalize preset=cifar10 layout=chw"},
    {"normalise standardize standardise normalization", "it is spelt \"normalize\" here"},
    {"prefetch queue queue2 multiqueue buffer prefetchtodevice prefetchiterdataset",
     "no stage is needed: every stage that takes batches has its own thread and queues; batch "
     "workers=2 reads with two threads, --depth 8 sets the length of the queues"},
    {"cache persist", "no stage is needed: a source keeps files up to memory=BYTES in memory"},
    {"shard distribute distributedsampler",
     "shuffle shard=0/4 reads one of four parts; batch host=0/4 makes one of four slices of each "
     "batch"},
    {"sampler randomsampler indexsampler randompermute permute", "stage \"shuffle\" does that"},
    {"sequentialsampler", "stage \"sequential\" does that"},
    {"weightedrandomsampler samplefromdatasets choosefromdatasets mixture",
     "stage \"mix\" does that: mix weights=7,3"},
    {"chain concat chaindataset concatdataset", "stage \"concatenate\" does that"},
    {"subset", "stage \"slice\" does that: slice 0:1000"},
    {"where", "stage \"filter\" does that: filter 0,1,2"},
    {"unbatch paddedbatch densetoraggedbatch collate batchdataset groupby bucketbysequencelength",
     "stage \"batch\" gathers records into batches of one size, and \"rebatch\" changes the size"},
    {"dataloader loader mapandbatch torchdataloader dataset",
     "a loader is a chain of stages: cifar10 ! shuffle seed=1 ! normalize ! batch 128 workers=2"},
    {"imagefolder datasetfolder imagefolderdataset imagenet",
     "stage \"folder\" reads pictures, one folder a class: folder DIR ! decode"},
    {"tfrecorddataset", "stage \"tfrecord\" does that: tfrecord FILE"},
    {"csvdataset readcsv pandas", "stage \"table\" does that: table FILE.csv"},
    {"grainarrayrecord arrayrecorddatasource", "stage \"arrayrecord\" does that: arrayrecord FILE"},
    {"ffcv", "stage \"beton\" does that: beton FILE.beton"},
    {"webdataset wds", "stage \"tar\" does that: tar shard-{000..012}.tar"},
    {"lightningdata optimizeddataset", "stage \"litdata\" does that: litdata DIR"},
    {"streamingdataset mosaicml streaming", "stage \"mds\" reads MosaicML's shards: mds DIR"},
    {"filesrc uridecodebin decodebin mnist fashionmnist svhn stl10 parquet",
     "the sources are folder, tar, tfrecord, arrayrecord, mds, litdata, beton, table, npy, npz, "
     "safetensors, tokens, "
     "cifar10, "
     "cifar100, "
     "synthetic and range; save other data as .npy files: npy images=FILE labels=FILE"},
    {"decodeimage decodejpeg decodepng imread jpegdec pngdec",
     "stage \"decode\" does that: folder DIR ! decode"},
    {"cifar cifar10dataset torchvision", "the sources are \"cifar10\" and \"cifar100\""},
    {"numpy fromnumpy fromtensorslices fromtensors tensordataset arraydatasource",
     "stages \"npy\" and \"npz\" do that: npy images=FILE labels=FILE, npz FILE"},
    {"videotestsrc audiotestsrc fakesrc fakedata random dummy",
     "stage \"synthetic\" makes pictures from a seed"},
    {"fakesink sink devnull appsink autovideosink", "stage \"null\" takes everything"},
    {"filesink print dump log logger csvlogger",
     "stage \"ledger\" writes what every batch holds, and \"jsonl\" and \"csv\" write metrics"},
    {"wandb mlflow summarywriter tensorboardlogger",
     "the stages jsonl, csv, tensorboard, prometheus, web and publish take metrics"},
    {"caps capsfilter",
     "no stage is needed: `millrace graph` prints the shapes, which follow from "
     "the stages"},
    {"train trainer fit model vit visiontransformer resnet mlp cnn",
     "stage \"train-step\" trains a model: train-step model=vit"},
    {"eval evaluate evaluator validate test", "stage \"eval-step\" evaluates a checkpoint"},
    {"adam adamw sgd momentum lion lamb optimizer crossentropyloss",
     "it is a setting of the stage that trains: train-step optimizer=adamw"},
    {"modelcheckpoint saver save", "stage \"checkpoint\" does that: train.state ! checkpoint"},
    {"earlystopping", "stage \"alert\" watches the loss: alert plateau=2000 fail"},
    {"enumerate", "every record has a number already, its key; stage \"ledger\" writes it"},
    {0}};

/* text: names here, best first, separated by blanks. */
static const row_t settings[] = {
    {"batchsize bs", "batch size"},
    {"batch", "size"},
    {"learningrate stepsize lrate baselr maxlr", "lr"},
    {"numworkers nworkers workercount jobs nthreads numthreads numparallelcalls parallelism",
     "workers threads"},
    {"wd weightdecay l2 l2reg", "weight-decay"},
    {"droplast dropremainder", "drop-remainder"},
    {"maxsteps numsteps nsteps iterations maxiter maxiters trainsteps totalsteps stepsperepoch",
     "steps"},
    {"numepochs nepochs maxepochs epoch repeat count", "epochs n"},
    {"datadir dataroot root datapath dataset folder dir directory location filename file src",
     "path data dir"},
    {"randomseed manualseed rngseed rng", "seed"},
    {"prob probability rate", "p dropout"},
    {"beta1", "b1"},
    {"beta2", "b2"},
    {"epsilon", "eps"},
    {"dim width hiddensize hiddendim embeddim dmodel modeldim", "embed"},
    {"mlpdim ffndim dff intermediatesize mlphidden", "mlp"},
    {"numheads nheads nhead", "heads"},
    {"numlayers nlayers nblocks blocks", "layers"},
    {"patchsize", "patch"},
    {"dropoutrate droprate", "dropout"},
    {"droppathrate stochasticdepth", "drop-path"},
    {"gradclip gradientclip clip clipgradnorm maxgradnorm gradientclipval clipnorm", "clip-norm"},
    {"gradaccum accumsteps accumulationsteps gradientaccumulationsteps accumulategradbatches",
     "accumulate"},
    {"precision amp mixedprecision bf16 fp16 type", "dtype"},
    {"scheduler lrscheduler lrschedule decay", "schedule"},
    {"warmupsteps warmupiters numwarmupsteps", "warmup"},
    {"opt optim", "optimizer"},
    {"emadecay modelema", "ema"},
    {"smoothing labelsmooth", "label-smoothing"},
    {"imgsize imagesize inputsize resolution", "size"},
    {"means", "mean"},
    {"stdev stds sd", "std"},
    {"format dataformat channels memoryformat", "layout"},
    {"valsplit validationsplit", "holdout"},
    {"outputdir outdir logdir savedir rundir output", "run dir"},
    {"saveevery savefreq savesteps checkpointfreq everynsteps", "checkpoint-every every"},
    {"activationcheckpointing gradientcheckpointing checkpointing", "remat"},
    {"windowsize buffersize window", "window-size"},
    {"gpu accelerator", "device"},
    {0}};

static const row_t missing[] = {
    {"pinmemory pinmemorydevice persistentworkers prefetchfactor prefetch multiprocessingcontext "
     "autotune",
     "nothing has to be set: workers are threads, and batches lie in queues of a fixed length "
     "(--depth)"},
    {"buffersize shufflebuffer shufflebuffersize",
     "shuffle needs no buffer, it reorders all records of an epoch; stage \"window-shuffle\" "
     "reorders "
     "within windows"},
    {"shuffle reshuffleeachiteration",
     "the order is a stage: shuffle seed=1 orders anew each epoch, sequential keeps the order"},
    {"deterministic", "every run is: the same seed gives the same bytes"},
    {"betas", "b1=0.9 b2=0.999 are two settings"},
    {"worldsize rank numreplicas numshards shardindex localrank",
     "one of four hosts is shard=0/4 of shuffle, or host=0/4 of batch"},
    {"verbose debug loglevel",
     "stage \"progress\" shows how training goes, `--explain` what limits it"},
    {"transform transforms collatefn", "each transform is a stage, joined by \"!\""},
    {"loss criterion", "the loss is cross-entropy, with label-smoothing="},
    {"momentum", "optimizer=momentum with b1=0.9"},
    {0}};

/* Copies name without '-' and '_', in lower case; "" if it is too long for the tables. */
static void foreign_fold(const char *name, char *out) {
  size_t n = 0;
  for (; *name && n < FOLDED_MAX - 1; name++)
    if (*name != '-' && *name != '_') out[n++] = (char)tolower((unsigned char)*name);
  out[*name ? 0 : n] = 0;
}

static const char *look_up(const row_t *rows, const char *name) {
  char word[FOLDED_MAX];
  foreign_fold(name, word);
  size_t n = strlen(word);
  for (; n && rows->names; rows++)
    for (const char *at = rows->names; (at = strstr(at, word)); at += n)
      if ((at == rows->names || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return rows->text;
  return NULL;
}

const char *mr_foreign_stage(const char *name) { return look_up(stages, name); }
const char *mr_foreign_missing(const char *name) { return look_up(missing, name); }

bool mr_foreign_setting(const char *name, bool (*known)(const void *ctx, const char *ours),
                        const void *ctx, char *ours, size_t n) {
  const char *list = look_up(settings, name);
  while (list && *list) {
    size_t len = strcspn(list, " ");
    snprintf(ours, n, "%.*s", (int)len, list);
    if (known(ctx, ours)) return true;
    list += len + (list[len] == ' ');
  }
  return false;
}

/* ---- values ---- */

/* The factor of a unit: 1000 for "k", 0.01 for "%", 1 for none; 0: unknown. */
static double factor(const char *unit) {
  static const struct {
    const char *unit;
    double by;
  } known[] = {{"", 1},       {"k", 1e3},       {"m", 1e6},      {"g", 1e9},
               {"%", 0.01},   {"kb", 1e3},      {"mb", 1e6},     {"gb", 1e9},
               {"kib", 1024}, {"mib", 1048576}, {"b", 1},        {"gib", 1 << 30},
               {"f", 1},      {"ki", 1024},     {"mi", 1048576}, {"gi", 1 << 30}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcasecmp(known[i].unit, unit)) return known[i].by;
  return 0;
}

/* Reads the number probably meant by value, ignoring "_" and accepting a unit or a decimal
   comma. */
static bool read_number(const char *value, double *out) {
  char text[FOLDED_MAX], *end;
  size_t n = 0;
  for (; *value && n < sizeof text - 1; value++)
    if (*value != '_') text[n++] = *value;
  text[n] = 0;
  char *comma = strchr(text, ',');
  if (comma && comma[1] && strspn(comma + 1, "0123456789") == strlen(comma + 1)) *comma = '.';
  double v = mr_strtod(text, &end);
  if (end == text || !isfinite(v)) return false;
  *out = v * factor(end);
  return factor(end) != 0;
}

static void number_hint(const mr_opt_t *o, const char *value, char *text, size_t n) {
  double v;
  if (!read_number(value, &v) || (o->lo != o->hi && (v < o->lo || v > o->hi))) return;
  if (o->type == MR_OPT_INT && (v != floor(v) || fabs(v) > 1e15)) return;
  mr_snprintf(text, n, o->type == MR_OPT_INT ? "; write %.0f" : "; write %.10g", v);
}

/* Other words for some choices, in pairs. */
static const row_t choices[] = {{"bfloat16 amp mixed half fp16 float16 16 bf16mixed", "bf16"},
                                {"float float32 fp32 32 single", "f32"},
                                {"uint8 byte", "u8"},
                                {"nchw channelsfirst", "chw"},
                                {"nhwc channelslast", "hwc"},
                                {"val validation dev eval", "valid"},
                                {"training", "train"},
                                {"testing", "test"},
                                {"cos cosineannealing cosinedecay", "cosine"},
                                {"true yes on 1", "full"},
                                {"false no off 0", "none"},
                                {"io_uring iouring", "uring"},
                                {0}};

bool mr_is_choice(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; n && (at = strstr(at, word)); at += n)
    if ((at == list || at[-1] == '|') && (at[n] == '|' || !at[n])) return true;
  return false;
}

static void choice_hint(const mr_opt_t *o, const char *value, char *text, size_t n) {
  char word[FOLDED_MAX];
  foreign_fold(value, word);
  const char *meant = mr_is_choice(o->choices, word) ? word : look_up(choices, value);
  if (meant && *meant && mr_is_choice(o->choices, meant)) snprintf(text, n, "; write %s", meant);
}

/* Writes `least` to `most` numbers separated by sep, whatever brackets and separators the value
   has, unless the setting would refuse one of them.  A single one of three counts for all three. */
static void list_hint(const mr_opt_t *o, const char *value, int least, int most, char sep,
                      char *text, size_t n) {
  double v[MR_VEC_MAX];
  int got = 0;
  for (const char *at = value; *at && got <= most;) {
    char *end;
    at += strspn(at, "()[]{}\"' ,:;x");
    if (!*at) break;
    double x = mr_strtod(at, &end);
    if (end == at || got == most || !isfinite(x)) return;
    if (o->lo != o->hi && (x < o->lo || x > o->hi)) return;
    v[got++] = x, at = end + (*end == '-');
  }
  if (got == 1 && least == 3) v[1] = v[2] = v[0], got = 3;
  if (got < least) return;
  if (sep == ':' && v[0] > v[1]) {
    double x = v[0];
    v[0] = v[1], v[1] = x;
  }
  size_t k = (size_t)snprintf(text, n, "; write ");
  for (int i = 0; i < got && k < n; i++) {
    mr_snprintf(text + k, n - k, "%.10g%c", v[i], i + 1 < got ? sep : 0);
    k += strlen(text + k);
  }
}

static void bool_hint(const char *value, char *text, size_t n) {
  static const row_t words[] = {{"true yes on t y enable enabled", "true"},
                                {"false no off f n none null disable disabled", "false"},
                                {0}};
  const char *meant = look_up(words, value);
  if (meant) snprintf(text, n, "; write %s", meant);
}

/* True for settings joined by other characters than blanks: "1,", "128,epochs=2", "128;". */
static bool is_joined(const mr_opt_t *o, const char *value) {
  size_t n = strlen(value);
  if (n > 1 && (value[n - 1] == ',' || value[n - 1] == ';')) return true;
  return o->type != MR_OPT_VEC3 && o->type != MR_OPT_VEC && strpbrk(value, ",;") &&
         strchr(value, '=');
}

const char *mr_value_hint(const mr_opt_t *o, const char *value, char *text, size_t n) {
  if (!n) return text;
  text[0] = 0;
  if (is_joined(o, value)) {
    snprintf(text, n, "; blanks separate settings, not \",\" or \";\"");
  } else if (!*value) {
    snprintf(text, n, "; no blanks are allowed around \"=\"");
  } else if (o->type == MR_OPT_INT || o->type == MR_OPT_F64) {
    number_hint(o, value, text, n);
  } else if (o->type == MR_OPT_ENUM) {
    choice_hint(o, value, text, n);
  } else if (o->type == MR_OPT_RANGE) {
    list_hint(o, value, 2, 2, ':', text, n);
  } else if (o->type == MR_OPT_VEC3) {
    list_hint(o, value, 3, 3, ',', text, n);
  } else if (o->type == MR_OPT_VEC) {
    list_hint(o, value, 1, MR_VEC_MAX, ',', text, n);
  } else if (o->type == MR_OPT_BOOL) {
    bool_hint(value, text, n);
  }
  return text;
}
