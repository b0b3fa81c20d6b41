"""What the kernels hold of the logits at a time; the estimates of memory read it too."""

CHUNK_ELEMENTS = 1 << 24  # logits of a chunk, without kernels
STASH_SHARE = 16  # of a GPU's memory one part may be kept from forward to backward
SLICE_BYTES = 1 << 28  # of logits made again on the way back, where they were not kept
