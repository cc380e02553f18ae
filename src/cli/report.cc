// SPDX-License-Identifier: Apache-2.0
// temper report: files of measurements become a page, images, or a table.
#include "report/report.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/json_text.h"
#include "cli/verb.h"
#include "report/render.h"

namespace temper::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string html, png, svg, markdown, csv, python;
};

// "plots/out.png" and "latency" -> "plots/out-latency.png". A page has several pictures, so each has its name.
std::string named(const std::string& path, const std::string& name) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / concat(whole.stem().string(), "-", name, whole.extension().string())).string();
}

// The interpreter that ./dev setup gave what drawing needs, where it did.
std::string usual_python() {
  const std::string ours = cache_folder() + "/venv/bin/python";
  return std::filesystem::exists(ours) ? ours : "python3";
}

void report(const Options& options, const Context& context) {
  const std::vector<std::string> outputs{options.html, options.png, options.svg, options.markdown, options.csv};
  bool any = false;
  for (const std::string& path : outputs) {
    any = any || !path.empty();
    check_can_write(path);
    for (const std::string& input : options.files) {
      std::error_code ignored;
      if (!path.empty() && std::filesystem::equivalent(path, input, ignored))
        fail(ErrorKind::usage, "'", path, "' is one of the files to read; name another one to write");
    }
  }
  if (!any) fail(ErrorKind::usage, "say what to write: -o REPORT.html, --png, --svg, --markdown or --csv");
  const Report read = read_report(options.files);
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  const auto write = [&](const std::string& path, const std::string& content) {
    write_file_atomically(path, content);
    written.push_back(path);
    if (!context.json) std::printf("%s\n", path.c_str());
  };
  if (!options.markdown.empty()) write(options.markdown, report_markdown(read));
  if (!options.csv.empty()) write(options.csv, report_csv(read));
  if (!options.html.empty()) write(options.html, report_html(read));
  std::vector<Figure> drawn;
  if (!options.svg.empty() || !options.png.empty()) {
    for (const Figure& figure : figures_of(read))
      if (!figure.spec.empty()) drawn.push_back(figure);
    if (drawn.empty())
      fail(ErrorKind::usage,
           "there is nothing to draw in these files: no latency, no study, no profile, no explanation");
  }
  for (const auto& [path, format] :
       {std::pair{options.svg, ImageFormat::svg}, std::pair{options.png, ImageFormat::png}}) {
    if (path.empty()) continue;
    const auto images = render(drawn, format, options.python.empty() ? usual_python() : options.python);
    for (size_t i = 0; i < drawn.size(); ++i) write(named(path, drawn[i].name), images[i]);
  }
  if (context.json) std::fputs(json_text({{"written", written}}).c_str(), stdout);
}

}  // namespace

void add_report(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option(
          "file", options->files,
          "results (bench --json, import), studies (study.json), profiles (profile --json), explanations (explain -o)")
      ->required();
  verb.add_option("-o,--output", options->html,
                  "one HTML page that needs no network: pictures, tables, environment, commands");
  verb.add_option("--markdown", options->markdown, "tables for a log or a pull request");
  verb.add_option("--csv", options->csv, "every field of every run, for spreadsheets");
  verb.add_option("--svg", options->svg, "F.svg: each picture as F-NAME.svg (F-latency.svg, F-throughput.svg, ...)");
  verb.add_option("--png", options->png, "F.png: each picture as F-NAME.png");
  verb.add_option("--python", options->python,
                  "a Python with vl-convert-python, which draws SVG and PNG; the one of ./dev setup, or python3");
  verb.callback([options, &context] { report(*options, context); });
}

}  // namespace temper::cli
