;;; agent-q-console.el --- Tools called from the prompt  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A line such as "/describe_symbol mapcar" calls a tool without a model.
;; This file knows such lines and completes them; what else a slash can stand before is in
;; agent-q-slash.el.

;;; Code:

(require 'agent-q-prompt)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-console-line-p (text)
  "Whether TEXT is a tool call: a slash and a name, and then maybe more."
  (let ((case-fold-search nil))
    (string-match-p "\\`/[A-Za-z0-9_-]+\\(?:[ \t\n]\\|\\'\\)" text)))

(defun agent-q-console-tool-p (name)
  "Whether a tool is called NAME."
  (agent-q-core-tool-known name))

(defvar agent-q-console-names-function #'ignore
  "Function that returns what a slash can stand before, apart from tools.
These are conses of a name and a note on it.")

(defun agent-q-console--first-line (text)
  "Return the first sentence of TEXT, as far as it fits beside a name."
  (truncate-string-to-width (car (split-string (or text "") "\\.[ \n]\\|\n"))
                            44 nil nil "..."))

;;;; Completion

(defun agent-q-console-completion-at-point ()
  "Complete the tool call at the prompt.
For `completion-at-point-functions'."
  (when (and (agent-q-prompt-p)
             (eq (char-after agent-q-prompt-start) ?/))
    (let* ((start (1+ agent-q-prompt-start))
           (name-end (save-excursion
                       (goto-char start)
                       (skip-chars-forward "A-Za-z0-9_-")
                       (point))))
      (if (<= (point) name-end)
          (agent-q-console--complete-name start name-end)
        (when-let ((tool (agent-q-core-tool
                          (buffer-substring-no-properties start name-end))))
          (agent-q-console--complete-argument tool name-end))))))

(defun agent-q-console--complete-name (start end)
  "Complete the name of a tool, command or prompt from START to END."
  (let* ((tools (agent-q-core-tools))
         (names (mapcar (lambda (tool) (plist-get tool :name)) tools))
         (more (seq-remove (lambda (more) (member (car more) names))
                           (funcall agent-q-console-names-function))))
    (list start end
          (lambda (string predicate action)
            (if (eq action 'metadata)
                ;; As they are: the tools are many, and models are who usually call them.
                '(metadata (display-sort-function . identity)
                           (cycle-sort-function . identity))
              (complete-with-action action (append (mapcar #'car more) names)
                                    string predicate)))
          :exclusive 'no
          :annotation-function
          (lambda (name)
            ;; One below the other.
            (concat (make-string (max 2 (- 23 (length name))) ?\s)
                    (if-let ((tool (seq-find (lambda (tool)
                                               (equal (plist-get tool :name) name))
                                             tools)))
                        (format "%-9s  %s" (plist-get tool :level)
                                (agent-q-console--first-line
                                 (plist-get tool :description)))
                      (cdr (assoc name more)))))
          :exit-function
          (lambda (_name status)
            (when (and (eq status 'finished)
                       (not (memq (char-after) '(?\s ?\n))))
              (insert " "))))))

(defun agent-q-console--complete-argument (tool name-end)
  "Complete the word at point among the arguments of TOOL after NAME-END."
  (let* ((word-start (save-excursion
                       (skip-chars-backward "^ \t\n" name-end)
                       (point)))
         (before (split-string
                  (buffer-substring-no-properties name-end word-start))))
    ;; Only leading words name parameters; what follows them is one value.
    (when (seq-every-p #'agent-q-console--assignment-name before)
      (save-excursion
        (goto-char word-start)
        (if (looking-at "\\([A-Za-z0-9_-]+\\)=")
            (agent-q-console--complete-value tool (match-string-no-properties 1)
                                             (match-end 0))
          (agent-q-console--complete-parameter
           tool word-start
           (mapcar #'agent-q-console--assignment-name before)))))))

(defun agent-q-console--assignment-name (word)
  "Return the name in WORD if it is of the form name=value."
  (when (string-match "\\`\\([A-Za-z0-9_-]+\\)=" word)
    (match-string 1 word)))

(defun agent-q-console--complete-parameter (tool start given)
  "Complete a name of TOOL's parameters at START, except those in GIVEN."
  (let ((parameters (seq-remove (lambda (parameter)
                                  (member (plist-get parameter :name) given))
                                (plist-get tool :parameters))))
    (list start (agent-q-console--word-end start)
          (mapcar (lambda (parameter)
                    (concat (plist-get parameter :name) "="))
                  parameters)
          :exclusive 'no
          :annotation-function
          (lambda (name)
            (when-let ((parameter (seq-find
                                   (lambda (parameter)
                                     (equal (concat (plist-get parameter :name)
                                                    "=")
                                            name))
                                   parameters)))
              (format "  %s%s  %s" (plist-get parameter :type)
                      (if (plist-get parameter :required) ", required" "")
                      (agent-q-console--first-line
                       (plist-get parameter :description))))))))

(defun agent-q-console--complete-value (tool name start)
  "Complete at START a value of the parameter NAME of TOOL."
  (when-let* ((parameter (seq-find (lambda (parameter)
                                     (equal (plist-get parameter :name) name))
                                   (plist-get tool :parameters)))
              (values (or (plist-get parameter :choices)
                          (and (equal (plist-get parameter :type) "boolean")
                               '("true" "false")))))
    (list start (agent-q-console--word-end start) values :exclusive 'no)))

(defun agent-q-console--word-end (start)
  "Return the end of the word that begins at START."
  (save-excursion
    (goto-char start)
    (skip-chars-forward "^ \t\n")
    (point)))

(provide 'agent-q-console)
;;; agent-q-console.el ends here
