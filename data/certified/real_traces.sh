#!/usr/bin/env bash
# On a machine with an H200: traces three training steps of each network of a folder on the real GPU, on the virtual one, and compares.
#   data/certified/real_traces.sh FOLDER_OF_PT_FILES OUTPUT_FOLDER
# Language models of 0.1 to 1.2 billion parameters run at batch 2 to 4 (BATCH_llama_1b_s512=2), all others at 16.
set -euo pipefail
memmodel=${MEMMODEL:-build/memmodel}
mkdir -p "$2"
for file in "$1"/*.pt; do
  network=$(basename "$file" .pt)
  variable=BATCH_$network
  for setting in "sgd:momentum=0.9 fp32 sgd_fp32" "adamw amp-bf16 adamw_bf16"; do
    read -r optimizer precision name <<<"$setting"
    for device in cuda virtual; do
      "$memmodel" trace --device $device --model "$file" --gpu h200 --batch "${!variable:-16}" --optimizer "$optimizer" --precision "$precision" \
        --step-protocol fresh --output "$2/${network}_$name.$device.trace"
    done
    "$memmodel" diff --json "$2/${network}_$name."{virtual,cuda}.trace >"$2/${network}_$name.json" || [ $? = 1 ]
  done
done
