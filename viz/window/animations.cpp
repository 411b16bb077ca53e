// Writes animations: WebP by libwebp where a build has it, GIF (gif.cpp), and MP4 by the program ffmpeg
// where it is installed.
#ifdef RINGSCOPE_HAS_WEBP
#include <webp/encode.h>
#include <webp/mux.h>
#endif

#include <fmt/format.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX's
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/program.h"
#include "core/base/text.h"
#include "viz/window/pictures.h"

namespace ringscope::viz {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_encode(const std::string& why) {
  throw RunError("the animation can't be encoded: " + why);
}

bool has_ffmpeg() {
  const char* const path = std::getenv("PATH");
  const auto folders = split(path == nullptr ? "" : path, ':');
  return std::any_of(folders.begin(), folders.end(), [](std::string_view folder) {
    return ::access((std::string(folder) + "/ffmpeg").c_str(), X_OK) == 0;
  });
}

// A folder for what another program writes, which goes with all that is in it.
struct TemporaryFolder {
  TemporaryFolder() {
    std::error_code error;  // then in the present folder
    path = (fs::temp_directory_path(error) / "ringscope-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) fail_to_encode("no temporary folder");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path;
};

// A program that reads what is sent to it. Where it ends early, sending fails instead of raising a signal.
class Receiver {
 public:
  explicit Receiver(const std::string& command)
      : former_(std::signal(SIGPIPE, SIG_IGN)), pipe_(::popen(command.c_str(), "w")) {}
  ~Receiver() {
    end();
    std::signal(SIGPIPE, former_);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  bool send(const Image& image) {
    const std::size_t pixels = image.pixels.size();
    return pipe_ != nullptr &&
           std::fwrite(image.pixels.data(), sizeof(Color), pixels, pipe_) == pixels;
  }
  // Wait for its end. Return whether that was a good one.
  bool end() {
    std::FILE* const pipe = std::exchange(pipe_, nullptr);
    return pipe != nullptr && ::pclose(pipe) == 0;
  }

 private:
  void (*former_)(int);  // the handler of the signal
  std::FILE* pipe_;
};

std::string mp4_of(const Animation& animation) {
  // ffmpeg goes back to the beginning of what it writes, so that can't be a pipe.
  const TemporaryFolder folder;
  const std::string file = folder.path + "/animation.mp4", log = folder.path + "/log";
  const double rate = animation.frames / animation.seconds;
  const std::string command = fmt::format(
      "ffmpeg -v error -f rawvideo -pix_fmt rgba -s {}x{} -r {} -i - "
      "-vf 'pad=ceil(iw/2)*2:ceil(ih/2)*2' -pix_fmt yuv420p -movflags +faststart "
      "-metadata comment={} {} 2> {}",
      animation.width, animation.height, rate, shell_word(picture_comment()), shell_word(file),
      shell_word(log));
  Receiver ffmpeg(command);
  bool written = true;
  const int staying = static_cast<int>(std::lround(rate * Animation::kLastMs / 1000));
  for (int frame = 0; written && frame < animation.frames; ++frame) {
    const Image image = animation.draw(frame);
    for (int i = 0; written && i <= (frame + 1 < animation.frames ? 0 : staying); ++i)
      written = ffmpeg.send(image);
  }
  const bool ended_well = ffmpeg.end();
  std::error_code error;
  if (!written || !ended_well || !fs::exists(file, error)) {
    const std::string said = fs::exists(log, error) ? read_file(log, "log") : "";
    fail_to_encode("ffmpeg: " + (said.empty() ? "ended early" : said.substr(0, said.find('\n'))));
  }
  return read_file(file, "animation");
}

#ifdef RINGSCOPE_HAS_WEBP

void require_encoded(bool done, const char* why = "no memory") {
  if (!done) fail_to_encode(why);
}

struct Encoded : WebPData {
  Encoded() : WebPData{nullptr, 0} {}
  ~Encoded() { WebPDataClear(this); }
  Encoded(const Encoded&) = delete;
  Encoded& operator=(const Encoded&) = delete;
};

std::string webp_of(const Animation& animation) {
  WebPAnimEncoderOptions options;
  WebPConfig config;
  WebPPicture picture;
  require_encoded(WebPAnimEncoderOptionsInit(&options) && WebPConfigInit(&config) &&
                      WebPConfigLosslessPreset(&config, 3) && WebPPictureInit(&picture),
                  "libwebp is of another version");
  options.kmin = options.kmax = 0;  // no key frames: nobody seeks in it, and changes are small
  picture.use_argb = 1;
  picture.width = animation.width;
  picture.height = animation.height;
  const std::unique_ptr<WebPAnimEncoder, void (*)(WebPAnimEncoder*)> encoder(
      WebPAnimEncoderNew(animation.width, animation.height, &options), WebPAnimEncoderDelete);
  require_encoded(encoder != nullptr);
  for (int frame = 0; frame < animation.frames; ++frame) {
    const Image image = animation.draw(frame);
    const bool added =
        WebPPictureImportRGBX(&picture, reinterpret_cast<const std::uint8_t*>(image.pixels.data()),
                              image.width * 4) &&
        WebPAnimEncoderAdd(encoder.get(), &picture, animation.ms_of(frame), &config);
    WebPPictureFree(&picture);
    require_encoded(added, WebPAnimEncoderGetError(encoder.get()));
  }
  Encoded frames, file;
  require_encoded(
      WebPAnimEncoderAdd(encoder.get(), nullptr,
                         animation.ms_of(animation.frames) + Animation::kLastMs, nullptr) &&
          WebPAnimEncoderAssemble(encoder.get(), &frames),
      WebPAnimEncoderGetError(encoder.get()));
  const std::unique_ptr<WebPMux, void (*)(WebPMux*)> mux(WebPMuxCreate(&frames, 0), WebPMuxDelete);
  const std::string xmp = xmp_of_comment();
  const WebPData note{reinterpret_cast<const std::uint8_t*>(xmp.data()), xmp.size()};
  require_encoded(mux && WebPMuxSetChunk(mux.get(), "XMP ", &note, 0) == WEBP_MUX_OK &&
                  WebPMuxAssemble(mux.get(), &file) == WEBP_MUX_OK);
  return {reinterpret_cast<const char*>(file.bytes), file.size};
}

#else

std::string webp_of(const Animation&) { return ""; }

#endif

}  // namespace

std::string why_not_animated(std::string_view path) {
  bool has_webp = false;
#ifdef RINGSCOPE_HAS_WEBP
  has_webp = true;
#endif
  if (path.ends_with(".webp") && !has_webp)
    return "this build can't write WebP; accepted: a name with .gif, or a build where there is "
           "libwebp (Debian package libwebp-dev)";
  if (path.ends_with(".mp4") && !has_ffmpeg())
    return "ffmpeg, which writes MP4, is not in PATH; accepted: a name with .gif or .webp, or its "
           "Debian package ffmpeg";
  return "";
}

void write_animation(const std::string& path, const Animation& animation) {
  write_file(path, path.ends_with(".gif")   ? gif_of(animation)
                   : path.ends_with(".mp4") ? mp4_of(animation)
                                            : webp_of(animation));
}

}  // namespace ringscope::viz
