/* Architectures against references that nobody here computed: tiny random models (tests/data/zoo;
 * weights from Hugging Face transformers, files from llama.cpp's converter, logits from both). */
#pragma once

/* Runs tests/data/zoo/<name>.gguf, or the family's file of that name, on every back end of this
 * machine and, if on_gpu, on the emulated GPU, and fails the test unless log-probabilities of given
 * tokens and greedy text are within the references' own tolerance for a cache of f16, and the
 * hashes are equal, bit for bit, among back ends, batches, chunks and page sizes. */
void zoo_check(const char *name, bool on_gpu);
