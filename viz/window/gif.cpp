// Writes animations as GIF 89a (CompuServe, 1990), which slides take. An image holds what has changed
// since the one before, in at most 256 colours of its own.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "viz/window/pictures.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kMostColors = 256;

std::string two_bytes(int number) {
  return {static_cast<char>(number & 255), static_cast<char>(number >> 8 & 255)};
}

// Return bytes in blocks of at most 255, behind the length of each, and an empty one.
std::string in_blocks(std::string_view bytes) {
  std::string blocks;
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 255))) {
    const std::string_view block = bytes.substr(0, 255);
    blocks += static_cast<char>(block.size());
    blocks += block;
  }
  return blocks + '\0';
}

// Pack numbers below 256 by LZW (appendix F): runs that came before have codes of their own, which have
// one bit more whenever there are twice as many.
std::string packed(const std::vector<std::uint8_t>& numbers) {
  constexpr int kClear = 256, kEnd = 257, kMostCodes = 4096;
  std::string bytes;
  unsigned held = 0;
  int held_bits = 0, bits = 9;
  const auto put = [&](int code) {
    held |= static_cast<unsigned>(code) << held_bits;
    for (held_bits += bits; held_bits >= 8; held_bits -= 8, held >>= 8)
      bytes += static_cast<char>(held & 255);
  };
  std::vector<std::int16_t> longer(kMostCodes * 256, -1);  // [code][number]: the code of both
  int last = kEnd;
  put(kClear);
  int run = numbers[0];
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    std::int16_t& both = longer[static_cast<std::size_t>(run) * 256 + numbers[i]];
    if (both >= 0) {
      run = both;
      continue;
    }
    put(run);
    run = numbers[i];
    both = static_cast<std::int16_t>(++last);
    if (last == 1 << bits) ++bits;
    if (last < kMostCodes - 1) continue;
    put(kClear);
    std::fill(longer.begin(), longer.end(), -1);
    last = kEnd;
    bits = 9;
  }
  put(run);
  if (last + 1 == 1 << bits && bits < 12) ++bits;  // a reader has one code more by now
  put(kEnd);
  bits = 8;
  put(0);  // what is held
  return bytes;
}

int distance(Color a, Color b) {
  int sum = 0;
  for (const int shift : {0, 8, 16}) {
    const int by = static_cast<int>(a >> shift & 255) - static_cast<int>(b >> shift & 255);
    sum += by * by;
  }
  return sum;
}

// Return at most 256 colours for an image of these, with how many pixels each has. Of more, the most frequent
// ones stay as they are, and of the others those that nearly agree become the most frequent one of them.
std::vector<Color> chosen_colors(const std::unordered_map<Color, int>& counts) {
  std::vector<std::pair<int, Color>> ranked;
  for (const auto& [color, count] : counts) ranked.emplace_back(-count, color);
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > kMostColors) {
    const auto rest = ranked.begin() + kMostColors / 2;
    std::unordered_map<Color, std::size_t> groups;  // by five bits of each part
    std::vector<std::pair<int, Color>> grouped;
    for (auto it = rest; it != ranked.end(); ++it) {
      const auto [group, is_new] = groups.try_emplace(it->second & 0xf8f8f8, groups.size());
      if (is_new) grouped.emplace_back(0, it->second);
      grouped[group->second].first += it->first;
    }
    std::sort(grouped.begin(), grouped.end());
    ranked.erase(rest, ranked.end());
    ranked.insert(ranked.end(), grouped.begin(), grouped.end());
    ranked.resize(std::min(ranked.size(), kMostColors));
  }
  std::vector<Color> colors;
  for (const auto& [count, color] : ranked) colors.push_back(color);
  return colors;
}

class GifWriter {
 public:
  GifWriter(int width, int height) {
    out_ = "GIF89a" + two_bytes(width) + two_bytes(height) + std::string(3, '\0');
    out_ +=
        "\x21\xff\x0bNETSCAPE2.0" + in_blocks(std::string("\x01\0\0", 3));  // begin again, always
    if (!picture_comment().empty()) out_ += "\x21\xfe" + in_blocks(picture_comment());
  }

  // Add what `image` shows from `begin` on, in hundredths of a second.
  void add(const Image& image, int begin) {
    int x0 = image.width, y0 = image.height, x1 = 0, y1 = 0;
    for (int y = 0; y < image.height; ++y)
      for (int x = 0; x < image.width; ++x)
        if (before_.pixels.empty() || before_.at(x, y) != image.at(x, y)) {
          x0 = std::min(x0, x), x1 = std::max(x1, x + 1);
          y0 = std::min(y0, y), y1 = y + 1;
        }
    if (x1 == 0) return;  // the one before stays
    end_image(begin);
    out_ += std::string("\x21\xf9\x04\x04", 4);  // it stays below the next one
    delay_at_ = out_.size();
    begin_ = begin;
    out_ += std::string(4, '\0') + '\x2c' + two_bytes(x0) + two_bytes(y0) + two_bytes(x1 - x0) +
            two_bytes(y1 - y0) + '\x87';  // with its own 256 colours
    std::unordered_map<Color, int> counts;
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) ++counts[image.at(x, y)];
    const std::vector<Color> colors = chosen_colors(counts);
    for (std::size_t i = 0; i < kMostColors; ++i)
      for (const int shift : {0, 8, 16})
        out_ += static_cast<char>(i < colors.size() ? colors[i] >> shift & 255 : 0);
    std::unordered_map<Color, std::uint8_t> numbers;
    for (const auto& [color, count] : counts) {
      const auto nearest = std::min_element(
          colors.begin(), colors.end(),
          [of = color](Color a, Color b) { return distance(a, of) < distance(b, of); });
      numbers[color] = static_cast<std::uint8_t>(nearest - colors.begin());
    }
    std::vector<std::uint8_t> pixels;
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) pixels.push_back(numbers.at(image.at(x, y)));
    out_ += '\x08' + in_blocks(packed(pixels));
    before_ = image;
  }

  std::string finished(int end) {
    end_image(end);
    return out_ + '\x3b';
  }

 private:
  void end_image(int end) {
    if (delay_at_ > 0) out_.replace(delay_at_, 2, two_bytes(end - begin_));
  }

  std::string out_;
  std::size_t delay_at_ = 0;  // of the last image; 0: none yet
  int begin_ = 0;
  Image before_;
};

}  // namespace

std::string gif_of(const Animation& animation) {
  GifWriter writer(animation.width, animation.height);
  const auto place = [&](int frame) { return animation.ms_of(frame) / 10; };
  for (int frame = 0; frame < animation.frames; ++frame)
    writer.add(animation.draw(frame), place(frame));
  return writer.finished(place(animation.frames) + Animation::kLastMs / 10);
}

}  // namespace ringscope::viz
