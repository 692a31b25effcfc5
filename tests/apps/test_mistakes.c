/* What people who come from torch, tf.data, Keras or GStreamer write first, and the sentence that
   each mistake gets: where, which setting, its value, what was expected, what to write instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/xio.h"
#include "tests/apps/program.h"
#include "tests/needs.h"

static program_t p;
static char dir[] = "/tmp/mr-mistakes-XXXXXX";

static const struct {
  const char *word[8]; /* ends at NULL */
  const char *says;
} mistakes[] = {
    {{"run", "synthetic ! flip 0.3 0.4 ! batch 4 ! null"},
     "graph:1:22: unexpected \"0.4\" after flip: neither a stage nor a yes-or-no setting of it; "
     "its settings are NAME=VALUE, `millrace inspect flip` lists them"},
    {{"run", "synthetic ! normalize 0.5 ! batch 4 ! null"},
     "graph:1:23: unexpected \"0.5\" after normalize: neither a stage nor a yes-or-no setting of "
     "it; its settings are NAME=VALUE, `millrace inspect normalize` lists them"},
    {{"run", "synthetic ! normalize cifar10 ! batch 4 ! null"},
     "graph:1:13: normalize: the output \"out\" is not connected: \"cifar10\" after it is a stage "
     "of another chain; write preset=cifar10"},
    {{"run", "synthetic ! normalize f32 ! batch 4 ! null"},
     "graph:1:23: unexpected \"f32\" after normalize: neither a stage nor a yes-or-no setting of "
     "it; write dtype=f32"},
    {{"run", "synthetic batch 4 ! null"},
     "graph:1:1: synthetic: the output \"out\" is not connected: \"batch\" after it begins another "
     "chain; put \"!\" between them"},
    {{"run", "synthetic ! batch 4"},
     "graph:1:13: batch: the output \"out\" is not connected; join it by \"!\" to the stage that "
     "takes it, such as \"null\""},
    {{"run", "synthetic ! batch 4 !"},
     "graph:1:22: want a stage before the end of the text: \"!\" joins two stages"},
    {{"run", "! batch 4 ! null"}, "graph:1:1: want a stage before \"!\""},
    {{"run", "synthetic ! ! batch 4 ! null"}, "graph:1:13: want a stage before \"!\""},
    {{"run", "synthetic | batch 4 | null"},
     "graph:1:11: unexpected \"|\" after synthetic: neither a stage nor a yes-or-no setting of it; "
     "stages are joined by \"!\""},
    {{"run", "synthetic -> batch 4"},
     "graph:1:11: unexpected \"->\" after synthetic: neither a stage nor a yes-or-no setting of "
     "it; stages are joined by \"!\""},
    {{"run", "synthetic ! batch(4) ! null"},
     "graph:1:13: unknown stage \"batch(4)\"; settings follow batch after a blank, without \"(\""},
    {{"run", "synthetic ! shuffle(seed=1) ! batch 4 ! null"},
     "graph:1:13: unknown stage \"shuffle(seed=1)\"; settings follow shuffle after a blank, "
     "without \"(\""},
    {{"run", "synthetic ! batch, 4 ! null"},
     "graph:1:13: unknown stage \"batch,\"; settings follow batch after a blank, without \",\""},
    {{"run", "synthetic ! \"batch\" 4 ! null"},
     "graph:1:13: unknown stage \"batch\"; write batch without quotes"},
    {{"run", "synthetic ! shuffle seed=1, epochs=2 ! batch 4 ! null"},
     "graph:1:21: shuffle: setting seed = \"1,\": want a whole number in [-1,4294967295]; blanks "
     "separate settings, not \",\" or \";\""},
    {{"run", "synthetic ! shuffle seed=1,epochs=2 ! batch 4 ! null"},
     "graph:1:21: shuffle: setting seed = \"1,epochs=2\": want a whole number in [-1,4294967295]; "
     "blanks separate settings, not \",\" or \";\""},
    {{"run", "synthetic ! shuffle seed:1 ! batch 4 ! null"},
     "graph:1:21: unexpected \"seed:1\" after shuffle: neither a stage nor a yes-or-no setting of "
     "it; write seed=1"},
    {{"run", "synthetic ! batch size = 4 ! null"},
     "graph:1:19: \"size\" and its value are separated: write size=4 without blanks"},
    {{"run", "synthetic ! batch size= 4 ! null"},
     "graph:1:19: \"size\" and its value are separated: write size=4 without blanks"},
    {{"run", "synthetic ! batch size =4 ! null"},
     "graph:1:19: \"size\" and its value are separated: write size=4 without blanks"},
    {{"run", "synthetic ! batch 0 ! null"},
     "graph:1:19: batch: setting size = \"0\": want a whole number in [1,65536] of records"},
    {{"run", "synthetic ! batch -4 ! null"},
     "graph:1:19: batch: setting size = \"-4\": want a whole number in [1,65536] of records"},
    {{"run", "synthetic ! batch 1k ! null"},
     "graph:1:19: batch: setting size = \"1k\": want a whole number in [1,65536] of records; write "
     "1000"},
    {{"run", "synthetic ! batch 1e3 ! null"},
     "graph:1:19: batch: setting size = \"1e3\": want a whole number in [1,65536] of records; "
     "write 1000"},
    {{"run", "synthetic ! batch 32.0 ! null"},
     "graph:1:19: batch: setting size = \"32.0\": want a whole number in [1,65536] of records; "
     "write 32"},
    {{"run", "synthetic ! batch 1_000 ! null"},
     "graph:1:19: batch: setting size = \"1_000\": want a whole number in [1,65536] of records; "
     "write 1000"},
    {{"run", "synthetic ! flip p=50% ! batch 4 ! null"},
     "graph:1:18: flip: setting p = \"50%\": want a number in [0,1]; write 0.5"},
    {{"run", "synthetic ! flip p=0,5 ! batch 4 ! null"},
     "graph:1:18: flip: setting p = \"0,5\": want a number in [0,1]; write 0.5"},
    {{"run", "synthetic ! batch 4 drop-remainder=True ! null"},
     "graph:1:21: batch: setting drop-remainder = \"True\": want true or false; write true"},
    {{"run", "synthetic ! batch 4 drop_remainder ! null"},
     "graph:1:21: unexpected \"drop_remainder\" after batch: neither a stage nor a yes-or-no "
     "setting of it; did you mean \"drop-remainder\"?"},
    {{"run", "synthetic ! batch 4 drop_last=true ! null"},
     "graph:1:21: batch: unknown setting \"drop_last\"; it is \"drop-remainder\" here"},
    {{"run", "synthetic ! batch 4 num_workers=2 ! null"},
     "graph:1:21: batch: unknown setting \"num_workers\"; it is \"workers\" here"},
    {{"run", "synthetic ! batch batch_size=4 ! null"},
     "graph:1:19: batch: unknown setting \"batch_size\"; it is \"size\" here"},
    {{"run", "synthetic ! batch 4 pin_memory=true ! null"},
     "graph:1:21: batch: unknown setting \"pin_memory\"; nothing has to be set: workers are "
     "threads, and batches lie in queues of a fixed length (--depth)"},
    {{"run", "synthetic ! batch 4 shuffle=true ! null"},
     "graph:1:21: batch: unknown setting \"shuffle\"; the order is a stage: shuffle seed=1 orders "
     "anew each epoch, sequential keeps the order"},
    {{"run", "synthetic ! batch 4 prefetch_factor=2 ! null"},
     "graph:1:21: batch: unknown setting \"prefetch_factor\"; nothing has to be set: workers are "
     "threads, and batches lie in queues of a fixed length (--depth)"},
    {{"run", "synthetic ! shuffle buffer_size=1000 ! batch 4 ! null"},
     "graph:1:21: shuffle: unknown setting \"buffer_size\"; shuffle needs no buffer, it reorders "
     "all records of an epoch; stage \"window-shuffle\" reorders within windows"},
    {{"run", "synthetic ! shuffle 1000 ! batch 4 ! null"},
     "graph:1:21: unexpected \"1000\" after shuffle: neither a stage nor a yes-or-no setting of "
     "it; its settings are NAME=VALUE, `millrace inspect shuffle` lists them"},
    {{"run", "synthetic ! resized-crop size=32 scale=0.9,1.0 ! batch 4 ! null"},
     "graph:1:34: resized-crop: setting scale = \"0.9,1.0\": want LOW:HIGH, two numbers in order "
     "in [1e-06,1] of area; write 0.9:1"},
    {{"run", "synthetic ! resized-crop size=32 scale=0:2 ! batch 4 ! null"},
     "graph:1:34: resized-crop: setting scale = \"0:2\": want LOW:HIGH, two numbers in order "
     "in [1e-06,1] of area"},
    {{"run", "synthetic ! resized-crop scale=(0.9, 1.0) ! batch 4 ! null"},
     "graph:1:26: resized-crop: setting scale = \"(0.9,\": want LOW:HIGH, two numbers in order in "
     "[1e-06,1] of area; blanks separate settings, not \",\" or \";\""},
    {{"run", "synthetic ! normalize mean=0.5,0.5 std=0.5 ! batch 4 ! null"},
     "graph:1:13: normalize: setting mean: 2 numbers for pictures of 3 channels, want one for "
     "each, "
     "or one for all"},
    {{"run", "synthetic ! normalize mean=[0.5,0.5,0.5] ! batch 4 ! null"},
     "graph:1:23: normalize: setting mean = \"[0.5,0.5,0.5]\": want one to four numbers A,B,.. in "
     "[-1000000,1000000]; write 0.5,0.5,0.5"},
    {{"run", "synthetic ! normalize mean=nan ! batch 4 ! null"},
     "graph:1:23: normalize: setting mean = \"nan\": want one to four numbers A,B,.. in "
     "[-1000000,1000000]"},
    {{"run", "synthetic ! normalize layout=NCHW ! batch 4 ! null"},
     "graph:1:23: normalize: setting layout = \"NCHW\": want one of hwc|chw; write chw"},
    {{"run", "synthetic ! normalize dtype=bfloat16 ! batch 4 ! null"},
     "graph:1:23: normalize: setting dtype = \"bfloat16\": want one of f32|bf16|u8; write bf16"},
    {{"run", "synthetic ! batch --help ! null"},
     "graph:1:19: \"--help\" after batch: a graph has no flags; `millrace inspect batch` lists its "
     "settings"},
    {{"run", "synthetic ! batch 4 --drop-remainder ! null"},
     "graph:1:21: \"--drop-remainder\" after batch: a graph has no flags; `millrace inspect batch` "
     "lists its settings"},
    {{"run", "Synthetic ! BATCH 4 ! null"},
     "graph:1:1: unknown stage \"Synthetic\"; did you mean \"synthetic\"?"},
    {{"run", "synthetic ! ResizedCrop ! batch 4 ! null"},
     "graph:1:13: unknown stage \"ResizedCrop\"; did you mean \"resized-crop\"?"},
    {{"run", "synthetic ! RandomHorizontalFlip p=0.5 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"RandomHorizontalFlip\"; stage \"flip\" does that: flip p=0.5"},
    {{"run", "synthetic ! take 10 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"take\"; stage \"limit\" ends a stream after some records: limit "
     "1000"},
    {{"run", "synthetic ! skip 10 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"skip\"; stage \"slice\" skips the first records of an epoch: "
     "slice 1000:"},
    {{"run", "synthetic ! map f ! batch 4 ! null"},
     "graph:1:13: unknown stage \"map\"; each transform is a stage, joined by \"!\": flip ! "
     "resized-crop ! normalize; a new one is a file in C (README.md, Adding a stage)"},
    {{"run", "synthetic ! cache ! batch 4 ! null"},
     "graph:1:13: unknown stage \"cache\"; no stage is needed: a source keeps files up to "
     "memory=BYTES in memory"},
    {{"run", "synthetic ! prefetch 2 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"prefetch\"; no stage is needed: every stage that takes batches "
     "has its own thread and queues; batch workers=2 reads with two threads, --depth 8 sets the "
     "length of the queues"},
    {{"run", "synthetic ! videoscale 32 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"videoscale\"; stage \"resize\" does that: resize 256, or resize "
     "224x224"},
    {{"run", "synthetic ! CenterCrop 32 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"CenterCrop\"; stage \"center-crop\" does that: center-crop 224"},
    {{"run", "synthetic ! crop 32 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"crop\"; no stage cuts at a fixed corner; stage \"center-crop\" "
     "takes the middle: center-crop 224"},
    {{"run", "synthetic ! ToTensor ! batch 4 ! null"},
     "graph:1:13: unknown stage \"ToTensor\"; stage \"normalize\" divides by 255 and makes floats: "
     "normalize layout=chw"},
    {{"run", "synthetic ! videoconvert ! batch 4 ! null"},
     "graph:1:13: unknown stage \"videoconvert\"; no stage is needed: pictures are RGB, and "
     "normalize "
     "makes floats of them"},
    {{"run", "synthetic ! queue ! batch 4 ! null"},
     "graph:1:13: unknown stage \"queue\"; no stage is needed: every stage that takes batches has "
     "its own thread and queues; batch workers=2 reads with two threads, --depth 8 sets the length "
     "of the queues"},
    {{"run", "synthetic ! DataLoader ! batch 4 ! null"},
     "graph:1:13: unknown stage \"DataLoader\"; a loader is a chain of stages: cifar10 ! shuffle "
     "seed=1 ! normalize ! batch 128 workers=2"},
    {{"run", "synthetic ! RandomCrop 32 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"RandomCrop\"; stage \"pad-crop\" does that: pad-crop 32 "
     "padding=4"},
    {{"run", "synthetic ! ColorJitter ! batch 4 ! null"},
     "graph:1:13: unknown stage \"ColorJitter\"; stage \"color-jitter\" does that: color-jitter "
     "brightness=0.4 contrast=0.4 hue=0.1"},
    {{"run", "synthetic ! RandomVerticalFlip ! batch 4 ! null"},
     "graph:1:13: unknown stage \"RandomVerticalFlip\"; there is no such stage; rand-augment and "
     "trivial-augment turn and shear pictures, and a new one is a file in C (README.md, Adding a "
     "stage)"},
    {{"run", "synthetic ! filesink ! batch 4 ! null"},
     "graph:1:13: unknown stage \"filesink\"; stage \"ledger\" writes what every batch holds, and "
     "\"jsonl\" and \"csv\" write metrics"},
    {{"run", "synthetic ! Normalize ! batch 4 ! null"},
     "graph:1:13: unknown stage \"Normalize\"; did you mean \"normalize\"?"},
    {{"run", "synthetic ! videotestsrc ! batch 4 ! null"},
     "graph:1:13: unknown stage \"videotestsrc\"; stage \"synthetic\" makes pictures from a seed"},
    {{"run", "synthetic ! shard 2 ! batch 4 ! null"},
     "graph:1:13: unknown stage \"shard\"; shuffle shard=0/4 reads one of four parts; batch "
     "host=0/4 makes one of four slices of each batch"},
    {{"run", "ImageFolder path=x ! batch 4 ! null"},
     "graph:1:1: unknown stage \"ImageFolder\"; stage \"folder\" reads pictures, one folder a "
     "class: "
     "folder DIR ! decode"},
    {{"run", "WebDataset urls=x ! batch 4 ! null"},
     "graph:1:1: unknown stage \"WebDataset\"; stage \"tar\" does that: tar shard-{000..012}.tar"},
    {{"run", "synthetic ! batch 4 ! tee name=t t. ! queue ! null"},
     "graph:1:39: unknown stage \"queue\"; no stage is needed: every stage that takes batches has "
     "its own thread and queues; batch workers=2 reads with two threads, --depth 8 sets the length "
     "of the queues"},
    {{"run", "process a { range 5 ! batch 2 name=b } process c { batch 0 x }"},
     "graph:1:60: unexpected \"x\" after batch: neither a stage nor a yes-or-no setting of it; its "
     "settings are NAME=VALUE, `millrace inspect batch` lists them"},
    {{"run", "synthetic ! batch 4 ! null process a { null }"},
     "graph:1:28: unexpected \"process\" after null: neither a stage nor a yes-or-no setting of "
     "it; \"process\" begins on a new line"},
    {{"run", "synthetic \\\n ! batch 4 ! null"},
     "graph:1:11: unexpected \"\\\" after synthetic: neither a stage nor a yes-or-no setting of "
     "it; inside quotes a line needs no \"\\\" at its end"},
    {{"run", "synthetic", "!", "batch", "4", "!", "null"},
     "run: \"!\", expected NAME=VALUE (quote the graph as one word)"},
    {{"run", "dir"}, "dir: it is a folder that holds no run, want a graph, its file or a run"},
    {{"run", "nofile.mr"}, "nofile.mr: cannot open: No such file or directory"},
    {{"run", "x.mr", "batch_size=3"},
     "batch_size=: neither a variable of the graph nor a setting of a stage; it is \"size\" here"},
    {{"run", "x.mr", "batch.size=three"},
     "batch.size=three: batch: setting size = \"three\": want a whole number in [1,65536] of "
     "records"},
    {{"run", "x.mr", "batch=3"},
     "batch=: neither a variable of the graph nor a setting of a stage; it is a stage: say "
     "batch.SETTING=, `millrace inspect batch` lists them"},
    {{"run", "x.mr", "size", "=", "3"},
     "run: \"size\" and its value are separated: write size=3 without blanks"},
    {{"run", "x.mr", "size=", "3"},
     "run: \"size\" and its value are separated: write size=3 without blanks"},
    {{"run", "x.mr", "--lr", "0.1"},
     "run: unknown flag --lr; settings of the graph have no dashes: lr=0.1"},
    {{"run", "cifar10 path=~/x ! batch 4 ! null"},
     "cifar10: path=~/x: the folder cannot be read: No such file or directory; \"~\" is not "
     "expanded here: write the whole path"},
    {{"run", "cifar10 path=file ! batch 4 ! null"},
     "cifar10: path=file: want a folder that holds cifar10 files; it is a file"},
    {{"run", "cifar10 path=py ! batch 4 ! null"},
     "cifar10: path=py: data_batch_1 is CIFAR's Python version, want the binary version "
     "(data_batch_1.bin); `millrace data fetch` downloads CIFAR-10's"},
    {{"run", "cifar10 path=packed ! batch 4 ! null"},
     "cifar10: path=packed: cifar-10-binary.tar.gz is packed: unpack it first (tar xzf "
     "cifar-10-binary.tar.gz)"},
    {{"run", "cifar10 path=packed/cifar-10-binary.tar.gz ! batch 4 ! null"},
     "cifar10: path=packed/cifar-10-binary.tar.gz: want a folder that holds cifar10 files; it is "
     "packed: unpack it first"},
    {{"run", "cifar10 path=outer ! batch 4 ! null"},
     "cifar10: path=outer: holds no data_batch_1.bin; say path=outer/cifar-10-batches-bin"},
    {{"run", "cifar10 path=dir ! batch 4 ! null"},
     "cifar10: path=dir: holds no data_batch_1.bin; `millrace data fetch` downloads CIFAR-10"},
    {{"run", "cifar10 path=nodir ! batch 4 ! null"},
     "cifar10: path=nodir: the folder cannot be read: No such file or directory"},
    {{"run", "npy images=images.npy labels=x ! batch 4 ! null"},
     "graph:1:1: npy: images.npy: cannot open: No such file or directory; images.npy.gz is there: "
     "unpack it first"},
    {{"run", "synthetic n=8 ! batch 4 name=b ! null", "size=3", "b.size=2"},
     "size=3 and b.size=2 set the same setting: it is given twice, want one of them"},
    {{"train", "lr=1", "train.lr=2", "--run-dir", "nowhere"},
     "lr=1 and train.lr=2 set the same setting: it is given twice, want one of them"},
    {{"run", "tar gs://bucket/a.tar ! batch 4 ! null"},
     "graph:1:1: tar: gs://bucket/a.tar: cannot be opened: No such file or directory; URLs begin "
     "with http://, https://, s3:// or file://"},
    {{"run", "tar shard-*.tar ! batch 4 ! null"},
     "graph:1:1: tar: shard-*.tar: cannot be opened: No such file or directory; names hold no "
     "patterns, but ranges {000..012}"},
    {{"run", "npy images=dir labels=x ! batch 4 ! null"},
     "graph:1:1: npy: dir: cannot open: not a regular file; it is a folder"},
    {{"run", "npy images=zipped.npy labels=x ! batch 4 ! null"},
     "graph:1:1: npy: zipped.npy: not an .npy file of format 1 to 3; it is packed by gzip: unpack "
     "it first (gunzip)"},
    {{"run", "npy images=arrays.npz labels=x ! batch 4 ! null"},
     "graph:1:1: npy: arrays.npz: not an .npy file of format 1 to 3; it is a zip file: unpack "
     "it first (unzip)"},
    {{"run", "npy images=~/a.npy labels=x ! batch 4 ! null"},
     "graph:1:1: npy: ~/a.npy: cannot open: No such file or directory; \"~\" is not expanded here: "
     "write the whole path"},
    {{"train", "--epochs", "three"},
     "train: --epochs: \"three\", expected a whole number from 0 to 1000000000"},
    {{"train", "--steps", "10k"},
     "train: --steps: \"10k\", expected a whole number from 0 to 1000000000000; write 10000"},
    {{"train", "--epochs=-1"},
     "train: --epochs: \"-1\", expected a whole number from 0 to 1000000000"},
    {{"train", "epochs=three"},
     "epochs=three: shuffle: setting epochs = \"three\": want a whole number in [0,1000000000] of "
     "epochs"},
    {{"train", "--device", "gpu"},
     "train: --device: device = gpu: there is no such backend, want cpu or opencl[:N] or "
     "cuda[:N]"},
    {{"train", "--verison"}, "train: unknown flag --verison; did you mean \"--version\"?"},
    {{"--verison"}, "unknown command \"--verison\"; did you mean \"--version\"?"},
    {{"trian"}, "unknown command \"trian\"; did you mean \"train\"?"},
    {{"fit"}, "unknown command \"fit\"; `millrace train` does that"},
    {{"download"}, "unknown command \"download\"; `millrace data fetch` does that"},
    {{"train", "run"},
     "train: run is a run, expected NAME=VALUE; to resume it: millrace train --run-dir run "
     "--resume"},
    {{"train", "dir"},
     "dir: holds no data that are recognised; want a folder of pictures for each class, CIFAR's "
     "files, an index.json of MDS or litdata, images.npy and labels.npy, or files that end in "
     ".tar, .tfrecord, .arrayrecord, .beton, .npz, .safetensors, .csv or .bin (tokens); "
     "source=STAGE says what it is"},
    {{"train", "x.mr"},
     "train: x.mr is a file, expected data or NAME=VALUE; --graph FILE names a graph"},
    {{"train", "foo"}, "train: \"foo\", expected NAME=VALUE"},
    {{"train", "lr", "=", "0.1"},
     "train: \"lr\" and its value are separated: write lr=0.1 without blanks"},
    {{"train", "lr=0,1"},
     "lr=0,1: train: setting lr = \"0,1\": want a number in [0,100]; write 0.1"},
    {{"train", "batch=0"},
     "batch=0: batches: setting size = \"0\": want a whole number in [1,65536] of records"},
    {{"train", "batchsize=4"},
     "batchsize=: neither a variable of the graph nor a setting of a stage; it is \"batch\" here"},
    {{"train", "batch_size=4"},
     "batch_size=: neither a variable of the graph nor a setting of a stage; it is \"batch\" here"},
    {{"train", "learning_rate=0.1"},
     "learning_rate=: neither a variable of the graph nor a setting of a stage; it is \"lr\" here"},
    {{"train", "weight_decay=0.1"},
     "weight_decay=: neither a variable of the graph nor a setting of a stage; did you mean "
     "\"weight-decay\"?"},
    {{"train", "wd=0.1"},
     "wd=: neither a variable of the graph nor a setting of a stage; it is \"weight-decay\" here"},
    {{"train", "num_workers=2"},
     "num_workers=: neither a variable of the graph nor a setting of a stage; it is \"workers\" "
     "here, of several stages: say batches.workers="},
    {{"train", "optimizer=AdamW"},
     "optimizer=AdamW: train: setting optimizer = \"AdamW\": want one of "
     "sgd|momentum|adam|adamw|lion|lamb; write adamw"},
    {{"train", "schedule=cos"},
     "schedule=cos: train: setting schedule = \"cos\": want one of constant|cosine|linear|rsqrt; "
     "write cosine"},
    {{"train", "momentum=0.9"},
     "momentum=: neither a variable of the graph nor a setting of a stage; write "
     "optimizer=momentum "
     "b1=0.9"},
    {{"train", "dropuot=0.1"},
     "dropuot=: neither a variable of the graph nor a setting of a stage; did you mean "
     "\"dropout\"?"},
    {{"train", "--lr", "0.1"},
     "train: unknown flag --lr; settings of the graph have no dashes: lr=0.1"},
    {{"train", "--batch-size", "64"},
     "train: unknown flag --batch-size; settings of the graph have no dashes: batch=64"},
    {{"train", "--num-epochs", "3"}, "train: unknown flag --num-epochs; it is --epochs here"},
    {{"train", "-e", "3"}, "train: unknown flag -e; it is --epochs here"},
    {{"train", "--output-dir", "x"}, "train: unknown flag --output-dir; it is --run-dir here"},
    {{"train", "--gpu", "0"}, "train: unknown flag --gpu; write --device cuda"},
    {{"train", "--data"}, "train: --data needs a value, PATH"},
    {{"train", "--data", "dir"},
     "data: path=dir: holds no data_batch_1.bin; `millrace data fetch` downloads CIFAR-10"},
    {{"train", "--data", "file"},
     "data: path=file: want a folder that holds cifar10 files; it is a file"},
    {{"train", "--resume", "--run-dir", "dir"},
     "dir: holds no graph.mr, so it is not a run; `millrace runs` lists the runs"},
    {{"train", "--graph", "dir"},
     "dir: it is a folder that holds no run, want a graph, its file or a run"},
    {{"eval", "run"}, "run/checkpoints/latest: 2 bytes are too few for a safetensors file"},
    {{"eval", "dir"},
     "dir is a folder that holds no run, want a run or a checkpoint, such as "
     "RUN/checkpoints/latest"},
    {{"eval", "nofile"}, "nofile: cannot open: No such file or directory"},
    {{"eval", "run/checkpoints/latest"},
     "run/checkpoints/latest: 2 bytes are too few for a safetensors file"},
    {{"eval", "x", "--split", "val"},
     "eval: --split: \"val\", expected train, valid or test; write valid"},
    {{"inspect", "no.npy"}, "inspect: no.npy: there is no such file or folder"},
    {{"inspect", "videoscale"},
     "inspect: unknown stage \"videoscale\"; stage \"resize\" does that: resize 256, or resize "
     "224x224"},
    {{"inspect", "Batch"}, "inspect: unknown stage \"Batch\"; did you mean \"batch\"?"},
    {{"inspect", "file"},
     "file: is not recognised by its name; want a folder of pictures for each class, CIFAR's "
     "files, an index.json of MDS or litdata, images.npy and labels.npy, or files that end in "
     ".tar, .tfrecord, .arrayrecord, .beton, .npz, .safetensors, .csv or .bin (tokens); "
     "source=STAGE says what it is"},
    {{"graph", "synthetic ! bacth 4 ! null"},
     "graph:1:13: unknown stage \"bacth\"; did you mean \"batch\"?"},
    {{"who", "run", "--step", "x"},
     "who: --step: \"x\", expected a whole number from 1 to 9007199254740992"},
    {{"batch", "run", "--step", "0"},
     "batch: --step: \"0\", expected a whole number from 1 to 9007199254740992"},
    {{"index", "--records", "50k"},
     "index: --records: \"50k\", expected a whole number from 1 to 2147483648; write 50000"},
};

static void each_mistake_gets_its_sentence(void **state) {
  char want[2048];
  int wrong = 0;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    program_run(&p, mistakes[i].word);
    snprintf(want, sizeof want, "millrace: %s\n", mistakes[i].says);
    if (p.status > 0 && p.status < 128 && !strcmp(p.err, want)) continue;
    print_error("row %zu, status %d\nsays  %swants %s", i, p.status, p.err, want);
    wrong++;
  }
  assert_int_equal(wrong, 0);
}

/* What such people write that can only mean one thing works. */
static void some_of_what_they_write_works(void **state) {
  RUN(&p, "run", "synthetic ! shuffle seed=1 ! flip 0.3 ! batch 128 ! null limit=2");
  assert_int_equal(p.status, 0);
  if (mr_built_in("ZMQ")) {
    RUN(&p, "run", "process a { range 5 ! batch 2 name=b } process c { null name=n } b. ! n.");
    assert_int_equal(p.status, 0);
  }
  RUN(&p, "train", "--version");
  assert_int_equal(p.status, 0);
  assert_int_equal(strncmp(p.out, "millrace ", 9), 0);
}

/* The files that the rows speak of, in a folder of the test's own. */
static int set_up(void **state) {
  static const char *const folder[] = {"dir", "py", "packed", "outer/cifar-10-batches-bin",
                                       "run/checkpoints"};
  static const char *const file[][2] = {{"file", "x"},
                                        {"py/data_batch_1", "x"},
                                        {"packed/cifar-10-binary.tar.gz", "x"},
                                        {"images.npy.gz", "x"},
                                        {"zipped.npy", "\x1f\x8b\x08 xxxx"},
                                        {"arrays.npz", "PK\3\4 xxxx"},
                                        {"x.mr", "synthetic ! batch 4 ! null\n"},
                                        {"run/graph.mr", "synthetic ! batch 4 ! null\n"},
                                        {"run/settings.txt", "\n"},
                                        {"run/checkpoints/latest", "x\n"}};
  if (!mkdtemp(dir) || chdir(dir) < 0) return -1;
  for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
    if (mr_make_folder(folder[i], NULL) < 0) return -1;
  for (size_t i = 0; i < sizeof file / sizeof *file; i++)
    if (mr_write_file(file[i][0], file[i][1], strlen(file[i][1]), NULL) < 0) return -1;
  return 0;
}

static int tear_down(void **state) { return program_forget(dir); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_mistake_gets_its_sentence),
                                     cmocka_unit_test(some_of_what_they_write_works)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
