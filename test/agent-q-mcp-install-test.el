;;; agent-q-mcp-install-test.el --- Tests of registering with other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is written into other programs' files, and that taking it back leaves them as they were.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-mcp-install)
(require 'cl-lib)
(require 'seq)

(defvar agent-q-mcp-install-test--asked nil "The questions that were asked, latest first.")

(defmacro agent-q-mcp-install-test--at-home (answer &rest body)
  "Run BODY in a home of its own, where each question is answered by ANSWER."
  (declare (indent 1) (debug t))
  `(let* ((home (file-name-as-directory (make-temp-file "aq-home" t)))
          (process-environment (append (list (concat "HOME=" home) "XDG_CONFIG_HOME" "CODEX_HOME"
                                             "CLAUDE_CONFIG_DIR")
                                       process-environment))
          (user-init-file (expand-file-name "init.el" home))
          (default-directory home)
          (agent-q-log-file (expand-file-name "log" home))
          (inhibit-message t)
          (agent-q-mcp-install-test--asked nil))
     (unwind-protect
         (cl-letf (((symbol-function 'y-or-n-p)
                    (lambda (question)
                      (push question agent-q-mcp-install-test--asked)
                      ,answer)))
           ,@body)
       (delete-directory home t))))

(defun agent-q-mcp-install-test--write (file text)
  "Write TEXT to FILE of the home."
  (make-directory (file-name-directory (expand-file-name file)) t)
  (write-region text nil file nil 'silent))

(defun agent-q-mcp-install-test--read (file)
  "Return the text of FILE of the home, or nil."
  (and (file-exists-p file)
       (with-temp-buffer (insert-file-contents file) (buffer-string))))

(defconst agent-q-mcp-install-test--files
  '((".claude.json" . "{\"numStartups\": 12345678901234567890, \"mcpServers\": {\"x\": {\"command\": \"y\"}},\n \"tips\":[1.50,\"ü\"]}")
    (".claude/settings.json" . "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls:*)\"\n    ]\n  }\n}\n")
    (".codex/config.toml" . "model = \"m\"\n\n[mcp_servers.other]\ncommand = \"z\"\n")
    (".config/opencode/opencode.json" . "{\n  // mine\n  \"theme\": \"dark\" /* so */\n}\n")
    (".config/eca/config.json" . "{}\n")
    ("init.el" . "(setq a 1)"))
  "Files of other programs, with what they hold before.")

(ert-deftest agent-q-mcp-install-and-back-leaves-every-character ()
  (agent-q-mcp-install-test--at-home t
    (pcase-dolist (`(,file . ,text) agent-q-mcp-install-test--files)
      (agent-q-mcp-install-test--write file text))
    (set-file-modes ".claude.json" #o600)
    (should-not (agent-q-mcp-install-registered))
    (dolist (agent '("Claude Code" "Codex" "opencode" "ECA" "agent-shell"))
      (agent-q-mcp-install agent)
      (should (member agent (agent-q-mcp-install-registered))))
    (let ((text (agent-q-mcp-install-test--read ".claude.json")))
      (should (string-match-p "12345678901234567890.*1.50" (string-replace "\n" " " text)))
      (should (equal (agent-q-mcp-install-program)
                     (let ((servers (gethash "mcpServers" (agent-q-json-parse text))))
                       (gethash "command" (gethash "agent-q" servers)))))
      (should (eql #o600 (file-modes ".claude.json"))))
    (should (string-match-p "\"mcp__agent-q\"" (agent-q-mcp-install-test--read ".claude/settings.json")))
    (should (string-match-p "default_tools_approval_mode = \"approve\""
                            (agent-q-mcp-install-test--read ".codex/config.toml")))
    ;; Codex hides the environment from what it starts.
    (should (string-match-p "^env_vars = .*\"XDG_RUNTIME_DIR\".*\"AGENT_Q_MCP_DIRECTORY\""
                            (agent-q-mcp-install-test--read ".codex/config.toml")))
    (should (string-match-p "\"agent-q_\\*\": \"allow\""
                            (agent-q-mcp-install-test--read ".config/opencode/opencode.json")))
    (with-temp-buffer
      (insert (agent-q-mcp-install-test--read "init.el"))
      (check-parens))
    ;; Twice is once, and asks nothing.
    (setq agent-q-mcp-install-test--asked nil)
    (agent-q-mcp-install "Codex")
    (should-not agent-q-mcp-install-test--asked)
    (agent-q-mcp-uninstall)
    (pcase-dolist (`(,file . ,text) agent-q-mcp-install-test--files)
      (should (equal (cons file (agent-q-mcp-install-test--read file)) (cons file text))))
    (should-not (agent-q-mcp-install-registered))))

;; What is there may be written in many ways, or be almost nothing, and a file may not be there at all.
(ert-deftest agent-q-mcp-install-and-back-leaves-what-is-almost-nothing ()
  (pcase-dolist
      (`(,agent ,file ,text)
       '(("Claude Code" ".claude.json" "{\"mcpServers\": []}")
         ("Claude Code" ".claude.json" "{\"mcpServers\": { }, \"a\": 1}")
         ("Claude Code" ".claude.json" "{\"mcpServers\": null}\n")
         ("Claude Code" ".claude.json" "{\"mcpServers\": {\"agent-q\": {\"command\":\"mine\"}, \"b\": {}}}")
         ("Claude Code" ".claude.json" "{}")
         ("Claude Code" ".claude.json" "")
         ("Claude Code" ".claude.json" "\n")
         ("Claude Code" ".claude.json" nil)
         ("Claude Code" ".claude/settings.json" "{\"permissions\": {\"allow\": []}}")
         ("Claude Code" ".claude/settings.json" "{\"permissions\": {}}")
         ("opencode" ".config/opencode/opencode.jsonc" "{\"mcp\": {} // d\n}\n")
         ("opencode" ".config/opencode/opencode.jsonc" "{\"mcp\": { // none\n } }")
         ("opencode" ".config/opencode/opencode.jsonc" "{\n  \"theme\": \"x\", // so\n}\n")
         ("opencode" ".config/opencode/opencode.json" "{\"permission\": \"allow\"}")
         ("opencode" ".config/opencode/opencode.json" "{\"permission\": {\"agent-q_*\": \"ask\", \"b\": \"deny\"}}")
         ("ECA" ".config/eca/config.json" "{\"toolCall\": {\"approval\": {}}}")
         ("Codex" ".codex/config.toml" "")
         ("Codex" ".codex/config.toml" nil)
         ("Codex" ".codex/config.toml" "a = 1")
         ("Codex" ".codex/config.toml" "[mcp_servers.agent-q]\ncommand = \"/old\"")
         ("Codex" ".codex/config.toml"
          "a = \"\"\"\n[mcp_servers.agent-q]\n\\\"\"\"\" # \"\"\"\nb = \'\'\'\nmcp_servers = 1\n\'\'\'\n")
         ("agent-shell" "init.el" nil)))
    (agent-q-mcp-install-test--at-home t
      (when text (agent-q-mcp-install-test--write file text))
      (agent-q-mcp-install agent)
      (should (equal (list agent) (agent-q-mcp-install-registered)))
      (when (string-suffix-p ".json" file)
        (should (json-parse-string (agent-q-mcp-install-test--read file))))
      ;; Twice, as what was noted for the first time doesn't count for the second.
      (agent-q-mcp-uninstall)
      (should (equal (list file text) (list file (agent-q-mcp-install-test--read file))))
      (agent-q-mcp-install agent)
      (agent-q-mcp-uninstall)
      (should (equal (list file text) (list file (agent-q-mcp-install-test--read file)))))))

(ert-deftest agent-q-mcp-install-touches-no-string-of-many-lines ()
  (agent-q-mcp-install-test--at-home t
    (let ((text "a = \"\"\"\n[mcp_servers.agent-q]\n\"\"\"\n"))
      (agent-q-mcp-install-test--write ".codex/config.toml" text)
      (agent-q-mcp-install "Codex")
      (should (string-prefix-p text (agent-q-mcp-install-test--read ".codex/config.toml"))))))

(ert-deftest agent-q-mcp-install-shows-the-change-and-nothing-else ()
  (agent-q-mcp-install-test--at-home
      (with-current-buffer "*agent-q registration*"
        (should (string-match-p "\\`.*/config\\.toml\n@@ .*@@\n\\(?:[-+ ].*\n\\)+\\'" (buffer-string)))
        t)
    (agent-q-mcp-install "Codex")
    (should (file-exists-p ".codex/config.toml"))))

(ert-deftest agent-q-mcp-install-needs-consent-and-a-file-that-it-understands ()
  (agent-q-mcp-install-test--at-home nil
    (agent-q-mcp-install-test--write ".claude.json" "{\"a\": 1}")
    (agent-q-mcp-install "Claude Code")
    (should (string-match-p "Change .*settings.json like this" (car agent-q-mcp-install-test--asked)))
    (should (equal "{\"a\": 1}" (agent-q-mcp-install-test--read ".claude.json")))
    (should-not (file-exists-p ".claude/settings.json"))
    (dolist (broken '("[1]" "{\"a\" 1}" "{\"mcpServers\": 3}" "{"))
      (agent-q-mcp-install-test--write ".claude.json" broken)
      (should-error (agent-q-mcp-install "Claude Code") :type 'user-error)
      (should (equal broken (agent-q-mcp-install-test--read ".claude.json"))))))

(ert-deftest agent-q-mcp-install-tells-the-project ()
  (agent-q-mcp-install-test--at-home t
    (make-directory ".git")
    (agent-q-mcp-install-test--write "AGENTS.md" "# Mine\n")
    (agent-q-mcp-install "Codex")
    (should (string-match-p "\\`# Mine\n\n## The running image" (agent-q-mcp-install-test--read "AGENTS.md")))
    (should (string-match-p "\\`---\nname: lisp-image"
                            (agent-q-mcp-install-test--read ".claude/skills/lisp-image/SKILL.md")))
    (agent-q-mcp-uninstall)
    (should (equal "# Mine\n" (agent-q-mcp-install-test--read "AGENTS.md")))
    (should-not (file-exists-p ".claude/skills/lisp-image/SKILL.md"))))

(ert-deftest agent-q-mcp-install-the-doctor-knows ()
  (agent-q-mcp-install-test--at-home t
    (should-not (agent-q-mcp-install-finding))
    (agent-q-mcp-install "Codex")
    (should (equal (nth 2 (agent-q-mcp-install-finding)) "registered with Codex, but not served"))))

;; A key that is there already, of another type or with another value, and how it is then.
(ert-deftest agent-q-mcp-install-respects-what-is-there ()
  (pcase-dolist
      (`(,agent ,file ,before ,during)
       '(("Claude Code" ".claude.json" "{\"mcpServers\": [], \"n\": 1}"
          "{\"mcpServers\": {\n[^}]*\"agent-q\": {[^}]*}\n  }, \"n\": 1}")
         ("Claude Code" ".claude.json" "{\"mcpServers\": {\"agent-q\": {\"command\": \"mine\", \"env\": {\"A\": \"b\"}}}}"
          "{\"mcpServers\": {\"agent-q\": {[^}]*/agent-q-mcp\"[^}]*}}}")
         ("Claude Code" ".claude/settings.json" "{\"permissions\": {\"allow\": null}}"
          "{\"permissions\": {\"allow\": \\[\n[^]]*\"mcp__agent-q\"[^]]*\\]}}")
         ("opencode" ".config/opencode/opencode.json" "{\"permission\": \"allow\"}"
          "\"permission\": {\n    \"\\*\": \"allow\",\n    \"agent-q_\\*\": \"allow\"\n  }")
         ("Codex" ".codex/config.toml"
          "[mcp_servers.agent-q]\ncommand = \"/old\"\n[mcp_servers.agent-q.env]\nA = \"b\"\n\n[other]\nx = 1\n"
          "\\`# agent-q replaced: \\[mcp_servers.agent-q\\]\n#.*\n#.*\n#.*\n#.*\n\\[other\\]")
         ("Codex" ".codex/config.toml" "[mcp_servers.\"agent-q\"]\ncommand = \"/old\""
          "\\`# agent-q replaced: \\[mcp")))
    (agent-q-mcp-install-test--at-home t
      (agent-q-mcp-install-test--write file before)
      (agent-q-mcp-install agent)
      (let ((text (agent-q-mcp-install-test--read file)))
        (should (string-match-p during text))
        (unless (string-suffix-p ".toml" file)
          (should (json-parse-string text))))
      (should (equal (agent-q-mcp-install-registered) (list agent)))
      ;; Once more changes nothing, and what was there is not forgotten.
      (setq agent-q-mcp-install-test--asked nil)
      (agent-q-mcp-install agent)
      (agent-q-mcp-uninstall)
      (should (equal before (agent-q-mcp-install-test--read file))))))

(ert-deftest agent-q-mcp-install-refuses-what-it-can-not-add-to ()
  (pcase-dolist (`(,agent ,file ,text)
                 '(("Claude Code" ".claude.json" "{\"mcpServers\": [1]}")
                   ("Codex" ".codex/config.toml" "[mcp_servers]\nagent-q = { command = \"/old\" }\n")
                   ("Codex" ".codex/config.toml" "mcp_servers.agent-q.command = \"/old\"\n")))
    (agent-q-mcp-install-test--at-home t
      (agent-q-mcp-install-test--write file text)
      (agent-q-mcp-install-test--write ".config/eca/config.json" "{\"a\": 1}")
      (agent-q-mcp-install "ECA")
      (should-error (agent-q-mcp-install agent) :type 'user-error)
      (should (equal text (agent-q-mcp-install-test--read file)))
      ;; The others are taken back all the same.
      (agent-q-mcp-uninstall)
      (should (equal "{\"a\": 1}" (agent-q-mcp-install-test--read ".config/eca/config.json"))))))

(ert-deftest agent-q-mcp-install-goes-where-claude-code-looks ()
  (agent-q-mcp-install-test--at-home t
    (let ((process-environment (cons (concat "CLAUDE_CONFIG_DIR=" home "elsewhere") process-environment)))
      (agent-q-mcp-install "Claude Code")
      (should (file-exists-p "elsewhere/.claude.json"))
      (should (file-exists-p "elsewhere/settings.json"))
      (should-not (file-exists-p ".claude.json"))
      (should (equal (agent-q-mcp-install-registered) '("Claude Code"))))))

(provide 'agent-q-mcp-install-test)
;;; agent-q-mcp-install-test.el ends here
