// Scratch memory that is kept between calls: mapping it anew costs more than the work of a small call.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "simd.h"

namespace sparsefinder::KERNEL_NAMESPACE {

// More than this is given back after a call.
constexpr size_t kKeptBytes = size_t{64} << 20;

// A buffer of its own for a thread, which grows and is not cleared.
template <class Item>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(items_); }

  Item* get(size_t count) {
    if (count > count_) {
      std::free(items_);
      count_ = 0;
      const size_t bytes = (count * sizeof(Item) + 63) / 64 * 64;
      items_ = static_cast<Item*>(std::aligned_alloc(64, bytes));
      if (!items_) throw std::bad_alloc();
      count_ = bytes / sizeof(Item);
    }
    return items_;
  }
  void trim() {
    if (count_ * sizeof(Item) <= kKeptBytes) return;
    std::free(items_);
    items_ = nullptr;
    count_ = 0;
  }

 private:
  Item* items_ = nullptr;
  size_t count_ = 0;
};

// Memory shared by the threads of one call. The last one given back is kept for the next call; calls that run at the
// same time each get their own.
class Shared {
 public:
  explicit Shared(size_t floats) {
    const size_t bytes = (floats * sizeof(float) + 127) / 64 * 64;
    block_ = kept().exchange(nullptr);
    if (block_ && block_->bytes >= bytes) return;
    release(block_);
    block_ = new Block{bytes, static_cast<float*>(std::aligned_alloc(64, bytes))};
    if (!block_->data) {
      delete block_;
      throw std::bad_alloc();
    }
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { release(block_->bytes <= kKeptBytes ? kept().exchange(block_) : block_); }
  float* data() const { return block_->data; }

 private:
  struct Block {
    size_t bytes;
    float* data;
  };
  static std::atomic<Block*>& kept() {
    static std::atomic<Block*> block{nullptr};
    return block;
  }
  static void release(Block* block) {
    if (!block) return;
    std::free(block->data);
    delete block;
  }
  Block* block_;
};

}  // namespace sparsefinder::KERNEL_NAMESPACE
