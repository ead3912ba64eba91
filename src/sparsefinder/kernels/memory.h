// Scratch memory that is kept between calls: mapping it anew costs more than the work of a small call.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// More than this is given back after a call.
constexpr size_t kKeptBytes = size_t{64} << 20;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
template <class Item>
using Aligned = std::unique_ptr<Item[], Free>;

// Memory that begins with a line of the cache, and is not cleared. `bytes` is a multiple of 64.
template <class Item>
Aligned<Item> aligned(size_t bytes) {
  Aligned<Item> items(static_cast<Item*>(std::aligned_alloc(64, bytes)));
  if (!items) throw std::bad_alloc();
  return items;
}

// A buffer of its own for a thread, which grows and is not cleared.
template <class Item>
class Buffer {
 public:
  Item* get(size_t count) {
    if (count > count_) {
      trim(0);
      const size_t bytes = (count * sizeof(Item) + 63) / 64 * 64;
      items_ = aligned<Item>(bytes);
      count_ = bytes / sizeof(Item);
    }
    return items_.get();
  }
  void trim(size_t most = kKeptBytes) {
    if (count_ * sizeof(Item) <= most) return;
    items_.reset();
    count_ = 0;
  }

 private:
  Aligned<Item> items_;
  size_t count_ = 0;
};

// Memory shared by the threads of one call. The last one given back is kept for the next call; calls that run at the
// same time each get their own.
class Shared {
 public:
  explicit Shared(size_t floats) {
    const size_t bytes = (floats * sizeof(float) + 127) / 64 * 64;
    block_.reset(kept().exchange(nullptr));
    if (block_ && block_->bytes >= bytes) return;
    block_.reset();
    block_ = std::make_unique<Block>(Block{bytes, aligned<float>(bytes)});
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (block_->bytes <= kKeptBytes) block_.reset(kept().exchange(block_.release()));
  }
  float* data() const { return block_->data.get(); }

 private:
  struct Block {
    size_t bytes;
    Aligned<float> data;
  };
  static std::atomic<Block*>& kept() {
    static std::atomic<Block*> block{nullptr};
    return block;
  }
  std::unique_ptr<Block> block_;
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
