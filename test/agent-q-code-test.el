;;; agent-q-code-test.el --- Tests of code in answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What can be done with the code of an answer, by keys and by its buttons: where it goes.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-chat)

(defun agent-q-code-test--add (text)
  "Add the answer TEXT, and end the turn."
  (agent-q-test-event :text :text text)
  (agent-q-test-event :turn-ended :outcome :finished)
  (agent-q-code-highlight-flush))

(defun agent-q-code-test--buttons (place)
  "Return where the next buttons of code are at PLACE or behind it."
  (while (not (and (stringp (get-text-property place 'display))
                   (string-search "[copy]" (get-text-property place 'display))))
    (setq place (next-single-property-change place 'display)))
  place)

(defun agent-q-code-test--click (label)
  "Click on the button LABEL behind the first line of the code in this chat."
  (let* ((place (agent-q-code-test--buttons (point-min)))
         (shown (get-text-property place 'display))
         (keymap (get-text-property (string-search label shown) 'keymap shown)))
    (funcall (lookup-key keymap [mouse-1])
             (list 'mouse-1 (list (get-buffer-window nil) place '(0 . 0) 0)))))

(ert-deftest agent-q-code-inserts-code-into-the-last-buffer-by-key-and-mouse ()
  (save-window-excursion
    (let ((file (generate-new-buffer "mine.lisp")))
      (unwind-protect
          (agent-q-test-with-chat
            (cl-letf (((symbol-function 'agent-q-session-user-last-buffer) (lambda (&rest _) file)))
              (switch-to-buffer (current-buffer))
              (agent-q-code-test--add "Here:\n\n```lisp\n(f 1)\n```\n\nDone.\n")
              (goto-char (point-max))
              (call-interactively (key-binding (kbd "C-c C-i")))
              (should (equal (with-current-buffer file (buffer-string)) "(f 1)"))
              (agent-q-code-test--click "[insert]")
              (should (equal (with-current-buffer file (buffer-string)) "(f 1)(f 1)"))
              (agent-q-code-test--click "[copy]")
              (should (equal (current-kill 0) "(f 1)"))
              (setq agent-q-session-connection nil)
              (should-error (agent-q-code-test--click "[REPL]") :type 'user-error)
              (should-error (call-interactively (key-binding (kbd "C-c C-y")))
                            :type 'user-error)))
        (kill-buffer file)))))

(ert-deftest agent-q-code-offers-the-repl-for-lisp-alone ()
  (agent-q-test-with-chat
    (agent-q-code-test--add "```lisp\n(f 1)\n```\n\n```python\nf(1)\n```\n\nDone.\n")
    (let* ((lisp (agent-q-code-test--buttons (point-min)))
           (python (agent-q-code-test--buttons (1+ lisp))))
      (should (string-search "[REPL]" (get-text-property lisp 'display)))
      (should (string-search "[insert]" (get-text-property python 'display)))
      (should-not (string-search "[REPL]" (get-text-property python 'display))))))

(ert-deftest agent-q-code-inserts-code-into-a-repl-only-where-there-is-nothing-else ()
  (save-window-excursion
    (let ((file (generate-new-buffer "mine.lisp"))
          (repl (generate-new-buffer "*mine repl*")))
      (unwind-protect
          (agent-q-test-with-chat
            (with-current-buffer repl
              (setq major-mode 'slime-repl-mode))
            (let ((buffers (list repl file)))
              (cl-letf (((symbol-function 'agent-q-session-user-last-buffer)
                         (lambda (predicate) (seq-find predicate buffers))))
                (agent-q-code-test--add "```lisp\n(f 1)\n```\n")
                (goto-char (point-max))
                (agent-q-code-block-insert)
                (should (equal (with-current-buffer file (buffer-string)) "(f 1)"))
                (should (equal (with-current-buffer repl (buffer-string)) ""))
                (setq buffers (list repl))
                (agent-q-code-block-insert)
                (should (equal (with-current-buffer repl (buffer-string)) "(f 1)")))))
        (kill-buffer file)
        (kill-buffer repl)))))

(ert-deftest agent-q-code-a-language-has-the-mode-of-its-files ()
  "But no word of a model's calls any other mode."
  (should (eq 'ruby-mode (agent-q-code-highlight--mode "ruby")))
  (should (eq 'ruby-mode (agent-q-code-highlight--mode "rb")))
  (should (eq 'lisp-mode (agent-q-code-highlight--mode "lisp")))
  (dolist (word '("agent-q-mcp" "view" "follow" "no-such-language" "a/b" "gz"))
    (should-not (agent-q-code-highlight--mode word))))

(ert-deftest agent-q-code-the-form-of-a-call-has-the-keys-of-lisp ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "eval_form"
                        :arguments "{\"form\":\"(list (bank::talky 12))\"}")
    (agent-q-test-event :call-finished :call 1 :outcome :succeeded :content "=> 1"
                        :milliseconds 9)
    (agent-q-test-find "▸ eval_form")
    (agent-q-test-press "TAB")
    (agent-q-test-find "form: (list (bank::talky 12)")
    (should-not (agent-q-names-code-p (point)))
    (search-forward "bank::ta")
    (should (equal (agent-q-names-symbol) "bank::talky"))
    (should (equal (agent-q-names--operator) "bank::talky"))
    (should (eq (key-binding (kbd "C-c C-d d")) 'agent-q-names-describe))
    (should (eq (key-binding (kbd "M-.")) 'agent-q-names-find-definition))
    ;; It is no code of an answer.
    (should-error (agent-q-code-block-text) :type 'user-error)))

(provide 'agent-q-code-test)
;;; agent-q-code-test.el ends here
