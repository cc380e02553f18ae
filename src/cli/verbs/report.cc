// SPDX-License-Identifier: Apache-2.0
// temper report: makes a page, images or a table from files of measurements.
#include "report/report.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "report/render.h"

namespace temper::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> files;
  std::string html, png, svg, markdown, csv, python;
  bool force = false;
};

// "plots/out.png" and "latency" -> "plots/out-latency.png". A page has several pictures, so each has its name.
std::string named(const std::string& path, const std::string& name) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / concat(whole.stem().string(), "-", name, whole.extension().string())).string();
}

// The interpreter that ./dev setup gave what drawing needs, where it did.
std::string usual_python() {
  try {
    const std::string ours = cache_folder() + "/venv/bin/python";
    return std::filesystem::exists(ours) ? ours : "python3";
  } catch (const Error&) {  // no cache folder, or one that others may write to
    return "python3";
  }
}

void report(const ReportFlags& options, const Context& context) {
  const bool force = options.force;
  const Output markdown{options.markdown, FileKind::markdown, force, "--markdown"};
  const Output csv{options.csv, FileKind::csv, force, "--csv"}, html{options.html, FileKind::page, force, "-o"};
  UsedFiles files{{}, options.files, {markdown, csv, html}};
  if (markdown.path.empty() && csv.path.empty() && html.path.empty() && options.png.empty() && options.svg.empty())
    fail(ErrorKind::usage, "say what to write: -o REPORT.html, --png, --svg, --markdown or --csv");
  check_files(files);
  const Report read = read_report(options.files);
  std::vector<Figure> drawn;
  if (!options.svg.empty() || !options.png.empty()) {
    for (const Figure& figure : figures_of(read))
      if (!figure.spec.empty()) drawn.push_back(figure);
    if (drawn.empty())
      fail(ErrorKind::usage,
           "there is nothing to draw in these files: no latency, no study, no profile, no explanation");
  }
  const auto picture = [&](const Figure& figure, ImageFormat format) {
    const bool svg = format == ImageFormat::svg;
    return Output{named(svg ? options.svg : options.png, figure.name), svg ? FileKind::svg : FileKind::png, force,
                  svg ? "--svg" : "--png"};
  };
  std::vector<ImageFormat> formats;
  if (!options.svg.empty()) formats.push_back(ImageFormat::svg);
  if (!options.png.empty()) formats.push_back(ImageFormat::png);
  for (const ImageFormat format : formats)
    for (const Figure& figure : drawn) files.writes.push_back(picture(figure, format));
  check_files(files);
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  const auto write = [&](const Output& output, const std::string& content) {
    write_file_atomically(output, content);
    written.push_back(output.path);
    if (!context.json) std::printf("%s\n", output.path.c_str());
  };
  if (!markdown.path.empty()) write(markdown, report_markdown(read));
  if (!csv.path.empty()) write(csv, report_csv(read));
  if (!html.path.empty()) write(html, report_html(read));
  for (const ImageFormat format : formats) {
    const auto images = render(drawn, format, options.python.empty() ? usual_python() : options.python);
    for (size_t i = 0; i < drawn.size(); ++i) write(picture(drawn[i], format), images[i]);
  }
  if (context.json) print_json({{"written", written}});
}

}  // namespace

void add_report(Command& verb, Context& context) {
  auto options = std::make_shared<ReportFlags>();
  verb.add_option("file", options->files,
                  "files to show: results (bench --json, import), studies (study.json), profiles (profile --json), "
                  "explanations (explain -o), suites (./dev bench gpu --suite --json)")
      .required();
  verb.add_option("-o,--output", options->html,
                  "HTML page to write, with pictures, tables, environment and commands; it needs no network");
  verb.add_option("--markdown", options->markdown,
                  "markdown file to write, with the tables for a log or a pull request");
  verb.add_option("--csv", options->csv, "CSV file to write, with every field of every run");
  verb.add_option("--svg", options->svg,
                  "write each picture as SVG; with F.svg they are F-latency.svg, F-throughput.svg, ...");
  verb.add_option("--png", options->png,
                  "write each picture as PNG; with F.png they are F-latency.png, F-throughput.png, ...");
  add_force_flag(verb, options->force);
  verb.add_option("--python", options->python,
                  "Python interpreter with vl-convert-python, which draws SVG and PNG; by default the one of ./dev "
                  "setup, or python3");
  verb.callback([options, &context] { report(*options, context); });
}

}  // namespace temper::cli
