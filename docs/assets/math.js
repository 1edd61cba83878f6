// Formulas are rendered by KaTeX, which lies beside this file; pages without formulas do not load it.
const formulas = document.querySelectorAll(".arithmatex");
if (formulas.length > 0) {
  const home = new URL("katex/", document.currentScript.src);
  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("katex.min.css", home);
  const script = document.createElement("script");
  script.src = new URL("katex.min.js", home);
  script.onload = () => {
    for (const formula of formulas) {
      const text = formula.textContent.trim();
      const displayMode = text.startsWith("\\[");
      katex.render(text.slice(2, -2), formula, { displayMode, throwOnError: false });
    }
  };
  document.head.append(style, script);
}
