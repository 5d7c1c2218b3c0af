;;; agent-q-markdown-test.el --- Tests of answers in Markdown  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How answers look in a chat, whatever the pieces in which they come, and what
;; can be done with the links, tables and code in them.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-chat)
(require 'agent-q-module)

(defconst agent-q-markdown-test--answer
  "# Title\n\nSome **bold**, `code`, *two words* and *earmuffs*.\n
- one\n  - nested\n> a quote\n
| Function | Says |\n|---|---:|\n| `car` | 1 |\n
1. first:\n\n   ```lisp\n   (car '(1))\n   ```\n
```lisp\n(defun f (x)\n  \"Doc.\" (1+ x))\n```\n
See https://example.org/a and [here](shop.lisp:2).\n")

(defun agent-q-markdown-test--add (text &optional size)
  "Add the answer TEXT in pieces of SIZE characters, and end the turn."
  (let ((from 0) (size (or size (length text))))
    (while (< from (length text))
      (agent-q-test-event :text :text (substring text from (min (length text) (+ from size))))
      (setq from (+ from size))))
  (agent-q-test-event :turn-ended :outcome :finished)
  (agent-q-code-highlight-flush))

(defun agent-q-markdown-test--find (text)
  "Return the place where TEXT begins in the log, and go there."
  (goto-char (point-min))
  (search-forward text agent-q-render-end)
  (goto-char (match-beginning 0)))

(defun agent-q-markdown-test--faces (text)
  "Return the list of faces where TEXT begins in the log."
  (ensure-list (get-text-property (agent-q-markdown-test--find text) 'face)))

(defun agent-q-markdown-test--looks ()
  "Return what each character of the log looks like."
  (cl-loop for place from (point-min) below agent-q-render-end
           collect (list (char-after place)
                         (mapcar (lambda (property) (get-text-property place property))
                                 '(face display invisible wrap-prefix line-prefix
                                        agent-q-link agent-q-code agent-q-gutter)))))

(ert-deftest agent-q-markdown-has-faces ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add agent-q-markdown-test--answer)
    (should (memq 'agent-q-heading-1 (agent-q-markdown-test--faces "Title")))
    (should (memq 'agent-q-strong (agent-q-markdown-test--faces "bold")))
    (should (memq 'agent-q-inline-code (agent-q-markdown-test--faces "code")))
    (should (memq 'agent-q-emphasis (agent-q-markdown-test--faces "two words")))
    (should-not (agent-q-markdown-test--faces "*earmuffs*"))
    (should (memq 'agent-q-quote (agent-q-markdown-test--faces "a quote")))
    (should (equal (get-text-property (agent-q-markdown-test--find "nested") 'wrap-prefix)
                   "    "))
    (should (memq 'font-lock-keyword-face (agent-q-markdown-test--faces "defun")))))

(ert-deftest agent-q-markdown-looks-the-same-in-any-pieces ()
  (let ((looks (agent-q-test-with-chat
                 (agent-q-markdown-test--add agent-q-markdown-test--answer)
                 (agent-q-markdown-test--looks))))
    (dolist (size '(1 2 7 40))
      (agent-q-test-with-chat
        (agent-q-markdown-test--add agent-q-markdown-test--answer size)
        (should (equal (agent-q-markdown-test--looks) looks))))))

(ert-deftest agent-q-markdown-copies-what-was-written ()
  (agent-q-test-with-chat
    (let ((start (marker-position agent-q-render-end)))
      (agent-q-markdown-test--add agent-q-markdown-test--answer 11)
      (should (string-suffix-p agent-q-markdown-test--answer
                               (filter-buffer-substring start agent-q-render-end)))
      (agent-q-copy-answer)
      (should (equal (current-kill 0) agent-q-markdown-test--answer)))))

(ert-deftest agent-q-markdown-copies-code ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add agent-q-markdown-test--answer)
    (goto-char (point-max))
    (agent-q-code-block-copy)
    (should (equal (current-kill 0) "(defun f (x)\n  \"Doc.\" (1+ x))"))
    (agent-q-markdown-test--find "```lisp\n   (car")
    (agent-q-code-block-copy)
    (should (equal (current-kill 0) "(car '(1))"))
    (agent-q-markdown-test--find "Title")
    (should-error (agent-q-code-block-copy) :type 'user-error)))

(ert-deftest agent-q-markdown-fontifies-nothing-twice ()
  (let ((agent-q-module-log-failed nil))
    (agent-q-test-with-chat
      (agent-q-markdown-test--add agent-q-markdown-test--answer)
      (should agent-q-code-highlight--timer)
      ;; All was fontified before its turn came.
      (agent-q-test-until (not agent-q-code-highlight--timer))
      (should-not agent-q-module-log-failed))))

(ert-deftest agent-q-markdown-aligns-tables-anew-for-another-width ()
  (save-window-excursion
    (agent-q-test-with-chat
      (switch-to-buffer (current-buffer))
      (delete-other-windows)
      (agent-q-markdown-test--add
       (format "| a | b |\n|---|---|\n| %s | c |\n" (make-string 60 ?w)))
      (agent-q-markdown-test--find "www")
      (let ((shown (lambda ()
                     (text-property-not-all (point) (line-end-position) 'display nil))))
        (cl-letf (((symbol-function 'window-body-width) (lambda (&rest _) 100)))
          (agent-q-markdown-table-refresh)
          (should (= (- (funcall shown) (point)) 60)))
        (cl-letf (((symbol-function 'window-body-width) (lambda (&rest _) 40)))
          (run-hook-with-args 'window-size-change-functions (selected-window))
          (should agent-q-markdown--table-timer)
          (timer-event-handler agent-q-markdown--table-timer)
          (should (< (- (funcall shown) (point)) 40)))))))

(ert-deftest agent-q-markdown-hides-its-signs-on-demand ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add "Some **bold** text.\n")
    (agent-q-markdown-test--find "**bold")
    (should (invisible-p (point)))
    (should-not (invisible-p (+ (point) 2)))
    (agent-q-toggle-markup)
    (should-not (invisible-p (point)))
    (agent-q-toggle-markup)
    (should (invisible-p (point)))
    (agent-q-toggle-markup))
  ;; It was for that chat alone.
  (agent-q-test-with-chat
    (agent-q-markdown-test--add "Some **bold** text.\n")
    (should (invisible-p (agent-q-markdown-test--find "**bold")))))

(defun agent-q-markdown-test--seen ()
  "Return the log as it is seen, without what is hidden."
  (let ((place (point-min)) (seen ""))
    (while (< place agent-q-render-end)
      (let ((next (next-single-char-property-change place 'invisible nil agent-q-render-end)))
        (unless (invisible-p place)
          (setq seen (concat seen (buffer-substring-no-properties place next))))
        (setq place next)))
    seen))

(ert-deftest agent-q-markdown-hides-fences-but-not-what-they-are-about ()
  (dolist (size '(1 3 500))
    (agent-q-test-with-chat
      (agent-q-markdown-test--add
       "Look:\n```lisp\n(a)\n```\n- so\n  ```\n  (b)\n  ```\n> ```c\n> d;\n> ```\n\n`end`" size)
      (agent-q-test-event :turn-started :turn 2 :text "Next")
      (should (string-search "Look:\nlisp\n(a)\n- so\n  \n  (b)\n> c\n> d;\n\nend\n\n> Next"
                             (agent-q-markdown-test--seen)))
      (should (get-text-property (agent-q-markdown-test--find "(a)") 'agent-q-code))
      (should (eq 'agent-q-code-label (get-text-property (+ 3 (agent-q-markdown-test--find "```lisp")) 'face))))
    ;; A fence at the end of an answer takes no line, either.
    (agent-q-test-with-chat
      (agent-q-markdown-test--add "```lisp\n(a)\n```" size)
      (agent-q-test-event :turn-started :turn 2 :text "Next")
      (should (string-search "lisp\n(a)\n\n> Next" (agent-q-markdown-test--seen))))))

(ert-deftest agent-q-markdown-links-lead-only-where-they-may ()
  (let ((opened nil))
    (cl-letf (((symbol-function 'browse-url) (lambda (url &rest _) (push url opened))))
      (agent-q-test-with-chat
        (agent-q-markdown-test--add
         "[web](https://a.b/c) [lisp](javascript:alert) [file](/etc/passwd) [up](../../etc/passwd) [tramp](/ssh:x:/y) [ftp](ftp://a.b)\n")
        (agent-q-markdown-test--find "web")
        (agent-q-markdown-link-follow)
        (should (equal opened '("https://a.b/c")))
        (dolist (label '("lisp]" "file]" "up]" "tramp]" "ftp]"))
          (agent-q-markdown-test--find label)
          (should-error (agent-q-markdown-link-follow) :type 'user-error))
        (should (equal opened '("https://a.b/c")))))))

(ert-deftest agent-q-markdown-lines-of-files-open-them ()
  (let* ((project (file-name-as-directory
                   (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
         (file (expand-file-name "bank.lisp" project)))
    (write-region "one\ntwo\nthree\n" nil file nil 'silent)
    (save-window-excursion
      (agent-q-test-with-chat
        (setq default-directory project)
        (agent-q-markdown-test--add "See `bank.lisp:2` and `gone.lisp:3`.\n")
        (agent-q-markdown-test--find "gone.lisp")
        (should-error (agent-q-markdown-link-follow) :type 'user-error)
        (agent-q-markdown-test--find "bank.lisp")
        (agent-q-markdown-link-follow)
        (with-current-buffer (find-buffer-visiting file)
          (unwind-protect
              (should (looking-at "two"))
            (kill-buffer)))))))

(ert-deftest agent-q-markdown-imitates-no-request ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add
     "? eval_form waits for your answer: C-c C-a, then a key\n    dangerous\n   [y] run  [n] deny\n" 5)
    (agent-q-markdown-test--find "? eval_form")
    (should (get-text-property (point) 'agent-q-disguise))
    (should (get-text-property (point) 'line-prefix))
    (should-not (agent-q-render-item-at (point)))
    (should-not (agent-q-call-waiting))
    (should-error (agent-q-goto-approval) :type 'user-error)
    (agent-q-markdown-test--find "[y] run")
    (should (get-text-property (point) 'line-prefix))
    (agent-q-test-event :approval :call 1 :tool "eval_form" :level "dangerous"
                        :reason "runs programs" :arguments "{}")
    (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
    (should-not (get-text-property (point) 'agent-q-disguise))
    (should (agent-q-render-item-at (point)))))

(ert-deftest agent-q-markdown-marks-what-looks-like-a-request-or-a-call-of-today ()
  (dolist (plain '(nil t))
    (let (lines)
      (agent-q-test-with-chat
        (setq agent-q-render--plain plain)
        (agent-q-test-event :approval :call 1 :tool "eval_form" :level "dangerous"
                            :reason "runs programs" :arguments "{\"form\":\"(f)\"}")
        (agent-q-test-event :approval :call 2 :tool "compile_form" :level "dangerous"
                            :reason "runs programs" :arguments "{\"form\":\"(g)\"}")
        (let ((block (split-string (agent-q-test-log) "\n" t)))
          (dolist (part '("^\\? Run eval_form" "^\\[y\\]" "^Press a key" "^\\? compile_form"))
            (push (or (seq-find (lambda (line) (string-match-p part line)) block)
                      (ert-fail part))
                  lines)))
        ;; Its sign may be anywhere.
        (push (string-remove-prefix "? " (car (last lines))) lines))
      (agent-q-test-with-chat
        (setq agent-q-render--plain plain)
        (agent-q-test-event :call-proposed :call 1 :tool "read_buffer" :arguments "{}")
        (agent-q-test-event :call-finished :call 1 :outcome :succeeded :content "Text."
                            :milliseconds 3)
        (push (seq-find (lambda (line) (string-search "read_buffer" line))
                        (split-string (agent-q-test-log) "\n" t))
              lines))
      (dolist (line lines)
        (agent-q-test-with-chat
          (agent-q-markdown-test--add (concat "Well.\n\n" line "\n"))
          (agent-q-markdown-test--find line)
          (should (equal (list line (get-text-property (point) 'agent-q-disguise))
                         (list line t))))))))

(defun agent-q-markdown-test--shown-line ()
  "Return the line at point as its display properties show it."
  (let ((place (line-beginning-position)) (end (line-end-position)) (shown ""))
    (while (< place end)
      (let* ((display (get-text-property place 'display))
             (next (min (next-single-property-change place 'display nil end)
                        (next-single-property-change place 'invisible nil end))))
        (unless (invisible-p place)
          (setq shown (concat shown (if (stringp display) display (buffer-substring place next)))))
        (setq place next)))
    shown))

(ert-deftest agent-q-markdown-tables-fit-and-are-shown-whole ()
  (agent-q-test-with-chat
    (let ((cell (make-string 200 ?w)))
      (agent-q-markdown-test--add (format "| a | b |\n|---|---|\n| %s | c |\n" cell))
      (agent-q-markdown-test--find "www")
      (should (eq (get-text-property (point) 'keymap) agent-q-markdown-table-map))
      (should (next-single-property-change (point) 'display))
      (save-window-excursion
        (agent-q-markdown-table-show)
        (should (string-search cell (buffer-string)))
        (should-not (text-property-any (point-min) (point-max) 'keymap agent-q-markdown-table-map))
        (kill-buffer)))))

(ert-deftest agent-q-markdown-tables-that-do-not-fit-keep-lines-and-links ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add
     (concat (apply #'concat (make-list 14 "| column ")) "|\n"
             (apply #'concat (make-list 14 "|---")) "|\n"
             "| [bank](src/bank.lisp) " (apply #'concat (make-list 13 "| value ")) "|\n"))
    (agent-q-markdown-test--find "bank")
    (should (eq (get-text-property (1- (point)) 'keymap) agent-q-markdown-link-map))
    ;; The columns for which there is no room are one sign at the end.
    (end-of-line)
    (should (string-match-p "\\` *│ …\\'" (get-text-property (1- (point)) 'display)))
    (should (<= (string-width (agent-q-markdown-test--shown-line)) 79))
    (agent-q-markdown-test--find "value")
    (should (eq (key-binding (kbd "RET")) #'agent-q-markdown-table-show))
    (save-window-excursion
      (agent-q-markdown-table-show)
      (agent-q-test-find "bank")
      (should (eq (get-text-property (1- (point)) 'keymap) agent-q-markdown-link-map))
      (kill-buffer))))

(ert-deftest agent-q-markdown-a-long-table-is-aligned-once-something-follows ()
  (agent-q-test-with-chat
    (cl-flet ((aligned-p ()
                (agent-q-markdown-test--find "last")
                (get-text-property (1- (point)) 'display)))
      (agent-q-test-event :text :text (concat "| a | b |\n|---|---|\n"
                                              (apply #'concat (make-list 300 "| x | yyyyyyy |\n"))
                                              "| last | y |\n"))
      (should-not (aligned-p))
      ;; The core goes on to other blocks, and does not come back to it.
      (dotimes (_ 20)
        (agent-q-test-event :text :text "\nSome words.\n\n# Head\n\nMore words.\n"))
      (should (aligned-p)))))

(ert-deftest agent-q-markdown-large-tables-are-shown-whole-by-a-key ()
  "They stand in the log as they are written."
  (dolist (table (list (concat (apply #'concat (make-list 50 "| a ")) "|\n"
                               (apply #'concat (make-list 50 "|---")) "|\n"
                               (apply #'concat (make-list 49 "| x ")) "| last |\n")
                       (concat "| a | b |\n|---|---|\n"
                               (apply #'concat (make-list 1500 "| x | yyyyyyy |\n"))
                               "| last | y |\n")))
    (agent-q-test-with-chat
      (agent-q-markdown-test--add (concat table "\nafter\n"))
      (agent-q-markdown-test--find "last")
      (should-not (get-text-property (point) 'display))
      (should (eq (key-binding (kbd "RET")) #'agent-q-markdown-table-show))
      (save-window-excursion
        (agent-q-markdown-table-show)
        (should (equal (string-trim-right table)
                       (buffer-substring-no-properties (point-min) (point-max))))
        ;; The columns are aligned there.
        (should (text-property-not-all (point-min) (point-max) 'display nil))
        (kill-buffer))
      (agent-q-markdown-test--find "after")
      (should-not (eq (key-binding (kbd "RET")) #'agent-q-markdown-table-show)))))

(ert-deftest agent-q-markdown-survives-a-mode-that-signals ()
  (let ((agent-q-code-highlight-modes '(("lisp" . agent-q-markdown-test--bad-mode)))
        (agent-q-module-log-failed nil))
    (cl-letf (((symbol-function 'agent-q-markdown-test--bad-mode)
               (lambda () (error "This mode does nothing but fail"))))
      (agent-q-test-with-chat
        (agent-q-markdown-test--add "```lisp\n(a)\n```\n\nafter **boldness**\n")
        (should (memq 'agent-q-strong (agent-q-markdown-test--faces "boldness")))))))

(define-derived-mode agent-q-markdown-test-failing-mode prog-mode "Failing"
  "A mode whose fontifying signals an error behind its first word."
  (setq-local font-lock-defaults
              '((("\\`[a-z]+" . font-lock-keyword-face)
                 ((lambda (_limit) (error "This can't be fontified")) . font-lock-string-face)))))

(ert-deftest agent-q-markdown-says-nothing-while-it-fontifies ()
  "Some modes tell in the echo area how they begin."
  (let ((hidden (get-buffer " *agent-q sh-mode*")))
    (when hidden (kill-buffer hidden)))
  (agent-q-test-with-chat
    (let ((inhibit-message nil))
      (with-current-buffer (messages-buffer)
        (let ((inhibit-read-only t)) (erase-buffer)))
      (agent-q-test-event :text :text "```sh\nif true; then ls; fi\n```\n")
      (agent-q-code-highlight-flush)
      (should (get-text-property (agent-q-test-find "if true") 'face))
      (should-not (with-current-buffer (messages-buffer) (agent-q-test-shows "Indentation"))))))

(ert-deftest agent-q-markdown-survives-a-mode-that-signals-while-it-fontifies ()
  (let ((agent-q-code-highlight-modes '(("bad" . agent-q-markdown-test-failing-mode) ("lisp" . lisp-mode)))
        (agent-q-module-log-failed nil))
    (agent-q-test-with-chat
      (agent-q-markdown-test--add
       "```bad\nfirst word\n```\n\n```lisp\n(defun later () 1)\n```\n\nafter **boldness**\n")
      (ignore-errors (agent-q-code-highlight-flush))
      (agent-q-code-highlight-flush)
      ;; The text is whole, and what comes behind it has its colours.
      (should (agent-q-test-shows "first word"))
      (should (memq 'font-lock-keyword-face (agent-q-markdown-test--faces "defun")))
      (should (memq 'agent-q-strong (agent-q-markdown-test--faces "boldness"))))))

(defconst agent-q-markdown-test--bands '(agent-q-code-block agent-q-turn agent-q-request)
  "Faces with a background, for which no face of Emacs stands.")

(ert-deftest agent-q-markdown-faces-inherit-and-bring-no-colours ()
  (let ((faces nil))
    (mapatoms (lambda (symbol)
                (when (and (facep symbol) (string-prefix-p "agent-q-" (symbol-name symbol)))
                  (push symbol faces))))
    (should (> (length faces) 15))
    (dolist (face faces)
      (let ((attributes (face-default-spec face)))
        (should (equal (list face nil)
                       (list face (and (not (memq face agent-q-markdown-test--bands))
                                       (string-match-p ":\\(?:fore\\|back\\)ground\\|#[0-9a-f]\\{6\\}"
                                                       (format "%S" attributes))))))
        (should (equal (list face t)
                       (list face (and (string-match-p ":inherit\\|:strike\\|:underline\\|:weight\\|:extend"
                                                       (format "%S" attributes))
                                       t))))))))

(ert-deftest agent-q-markdown-takes-bad-input ()
  (dolist (text (list "```lisp\n(never closed" (make-string 10000 ?>)
                      (concat (apply #'concat (make-list 500 "|a")) "|\n"
                              (apply #'concat (make-list 500 "|-")) "|\n"
                              (apply #'concat (make-list 500 "|b")) "|\n")
                      "a\x202e b\0c\x200d\n# \x2028 d\n" (make-string 1000000 ?x)))
    (agent-q-test-with-chat
      (agent-q-markdown-test--add text 30000)
      (should (equal (agent-q-render-last-answer) (agent-q-text-visible-prose text))))))

;;;; Old answers

(defmacro agent-q-markdown-test--with-old (texts &rest body)
  "Run BODY in a chat with the answers TEXTS, whose looks only the last one has kept."
  (declare (indent 1) (debug t))
  `(let ((agent-q-markdown--kept '(1 . 1000)))
     (agent-q-test-with-chat
       ;; Nobody sees it.
       (set-window-buffer nil (get-buffer-create "*scratch*"))
       (dolist (text ,texts)
         (agent-q-test-event :turn-started :turn 1 :text "Go on")
         (agent-q-markdown-test--add text))
       ,@body)))

(defun agent-q-markdown-test--display ()
  "Do what redisplay does to the whole of this chat."
  (goto-char (point-min))
  (while (not (eobp))
    (unless (get-text-property (point) 'fontified)
      (run-hook-with-args 'fontification-functions (point)))
    (goto-char (next-single-property-change (point) 'fontified nil (point-max))))
  (agent-q-code-highlight-flush))

(ert-deftest agent-q-markdown-takes-looks-from-old-answers-until-they-are-displayed ()
  (let* ((texts (list agent-q-markdown-test--answer
                      (concat "# Long\n" (make-string 9000 ?x) " **bold**\n")
                      "The **last** one.\n"))
         (whole (agent-q-test-with-chat
                  (dolist (text texts)
                    (agent-q-test-event :turn-started :turn 1 :text "Go on")
                    (agent-q-markdown-test--add text))
                  (agent-q-markdown-test--looks))))
    (agent-q-markdown-test--with-old texts
      (should-not (agent-q-markdown-test--faces "Title"))
      (should (memq 'agent-q-strong (agent-q-markdown-test--faces "last")))
      (let ((stretches 0) (place (agent-q-markdown-test--find "# Title"))
            (end (agent-q-markdown-test--find "# Long")))
        (while (< place end)
          (setq stretches (1+ stretches)
                place (next-property-change place nil end)))
        (should (< stretches 10)))
      (should (string-search (nth 1 texts)
                             (filter-buffer-substring (point-min) agent-q-render-end)))
      (let ((text (buffer-string)) (modified (buffer-modified-p)))
        (agent-q-markdown-test--display)
        (should (equal (agent-q-markdown-test--looks) whole))
        (should (equal-including-properties (substring-no-properties text)
                                            (buffer-substring-no-properties
                                             (point-min) (point-max))))
        (should (eq modified (buffer-modified-p))))
      ;; The next answer takes the looks again.
      (agent-q-test-event :turn-started :turn 4 :text "Go on")
      (agent-q-markdown-test--add "More.\n")
      (should-not (agent-q-markdown-test--faces "Title")))))

(ert-deftest agent-q-markdown-keeps-the-looks-of-answers-that-take-long-to-read ()
  (let ((long (concat "A **bold** word.\n" (make-string 30000 ?x) "\n")))
    (agent-q-markdown-test--with-old (list long "The **second**.\n" "The third.\n")
      (should (memq 'agent-q-strong (agent-q-markdown-test--faces "bold")))
      (should-not (agent-q-markdown-test--faces "second")))))

(ert-deftest agent-q-markdown-keeps-the-looks-of-old-answers-in-sight ()
  (save-window-excursion
    (agent-q-markdown-test--with-old '("A **bold** word.\n")
      (switch-to-buffer (current-buffer))
      (goto-char (point-max))
      (cl-letf (((symbol-function 'window-end) (lambda (&rest _) (point-max))))
        (agent-q-markdown-test--add "The second.\n"))
      (should (memq 'agent-q-strong (agent-q-markdown-test--faces "bold"))))))

(ert-deftest agent-q-markdown-finds-code-and-links-of-old-answers ()
  (agent-q-markdown-test--with-old (list "```lisp\n(first)\n```\n" "A [link](a.lisp).\n"
                                         "```lisp\n(third)\n```\n" "Nothing.\n" "Last.\n")
    (goto-char (point-max))
    (agent-q-code-block-copy)
    (should (equal (current-kill 0) "(third)"))
    ;; What is behind it stays as it is.
    (should (get-text-property (agent-q-markdown-test--find "A [link]") 'agent-q-bare))
    (agent-q-markdown-test--find "Go on\n\n```lisp\n(third)")
    (agent-q-code-block-copy)
    (should (equal (current-kill 0) "(first)"))
    (goto-char (point-min))
    (agent-q-chat-view-next-item)
    (should (looking-at-p "\\[?link\\b"))
    (goto-char (point-max))
    (agent-q-chat-view-previous-item)
    (should (looking-at-p "\\[?link\\b"))))

(ert-deftest agent-q-markdown-leaves-all-text-to-jit-lock-where-that-is-used ()
  (agent-q-markdown-test--with-old (list "A **bold** word.\n" "Second.\n")
    (jit-lock-register #'ignore)
    (agent-q-markdown-test--add "Third.\n")
    (should-not (get-text-property (agent-q-markdown-test--find "Third") 'fontified))
    (run-hook-with-args 'fontification-functions (agent-q-markdown-test--find "A **"))
    (should (memq 'agent-q-strong (agent-q-markdown-test--faces "bold")))))

(ert-deftest agent-q-markdown-makes-no-list-for-each-look-that-it-takes ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add (apply #'concat (make-list 200 "A **bold** word and `code`.\n")))
    (pcase-let ((`(,start ,end ,width) (car agent-q-markdown--dressed))
                (before (car (memory-use-counts))))
      (with-silent-modifications
        (agent-q-markdown--undress start end width))
      (should (< (- (car (memory-use-counts)) before) 200)))
    (should-not (agent-q-markdown-test--faces "bold"))))

(ert-deftest agent-q-markdown-draws-rules-across-the-window ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add "One.\n\n---\n\n> two\n>\n> ***\n\nTitle\n---\n")
    (dolist (rule '("---" "***"))
      (should (memq 'agent-q-rule (agent-q-markdown-test--faces rule)))
      (should (equal '(space :align-to (- right 1)) (get-text-property (point) 'display)))
      (should (eq (line-end-position) (next-single-property-change (point) 'display))))
    ;; The line below a title is none.
    (agent-q-markdown-test--find "Title")
    (forward-line)
    (should-not (get-text-property (point) 'display))
    (should (string-search "\n---\n\n> two\n>\n> ***\n\nTitle\n---" (agent-q-render-last-answer)))))

;;;; Formulas

(defun agent-q-markdown-test--drawn (text)
  "Return how the formula TEXT of this chat is drawn, or nil."
  (pcase (get-text-property (agent-q-markdown-test--find text) 'display)
    ((and `(when ,condition . ,drawn) (guard (eval condition t))) drawn)))

(ert-deftest agent-q-markdown-draws-formulas-and-copies-what-was-written ()
  (let ((answer "So $\\sigma^2 = \\frac{1}{n}$, \\(\\foo x\\), $5 and $10.\n\n\\[\nx_i \\le 1\n\\]\n"))
    (dolist (size '(1 3 500))
      (agent-q-test-with-chat
        (agent-q-markdown-test--add answer size)
        (should (equal "σ² = 1/n" (agent-q-markdown-test--drawn "$\\sigma")))
        (should (equal "xᵢ ≤ 1" (agent-q-markdown-test--drawn "\\[")))
        (should-not (agent-q-markdown-test--drawn "\\(\\foo"))
        (should (equal '(agent-q-inline-code) (agent-q-markdown-test--faces "\\(\\foo")))
        (should-not (agent-q-markdown-test--faces "$5 and"))
        (agent-q-copy-answer)
        (should (equal (current-kill 0) answer))
        (agent-q-toggle-markup)
        (should-not (agent-q-markdown-test--drawn "$\\sigma"))
        (agent-q-toggle-markup)))
    (agent-q-markdown-test--with-old (list answer "Last.\n")
      (should-not (agent-q-markdown-test--drawn "$\\sigma"))
      (agent-q-markdown-test--display)
      (should (equal "σ² = 1/n" (agent-q-markdown-test--drawn "$\\sigma"))))))

(ert-deftest agent-q-markdown-leaves-formulas-as-written-that-the-terminal-can-not-show ()
  (cl-letf (((symbol-function 'char-displayable-p) (lambda (sign) (< sign 128))))
    (agent-q-test-with-chat
      (agent-q-markdown-test--add "So $x^2$ and $a+b$.\n")
      (should-not (agent-q-markdown-test--drawn "$x^2"))
      (should (equal '(agent-q-inline-code) (agent-q-markdown-test--faces "$x^2")))
      (should (equal "a+b" (agent-q-markdown-test--drawn "$a+b"))))))

(ert-deftest agent-q-markdown-formulas-fit-into-tables ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add
     "| sign | b |\n|---|---|\n| $\\alpha^2$ | c |\n| xy | d |\n\n# More\n\nText.\n\n# Last\n" 500)
    (should (equal "α²" (agent-q-markdown-test--drawn "$\\alpha")))
    (cl-flet ((border (text)
                (get-text-property (+ (agent-q-markdown-test--find text) (length text)) 'display)))
      (should (equal "   │ " (border "$\\alpha^2$")))
      (should (equal "   │ " (border "xy"))))))

;;;; Proportional text

(defun agent-q-markdown-test--fixed-p (text)
  "Whether TEXT of this chat, as it is shown, is in a fixed pitch."
  (let ((place (agent-q-test-find text)))
    (seq-some (lambda (face)
                (or (eq face 'agent-q-code)
                    (memq 'agent-q-code (ensure-list (face-attribute face :inherit)))))
              (flatten-tree (or (get-text-property 0 'face (or (get-text-property place 'display) ""))
                                (get-text-property place 'face))))))

(ert-deftest agent-q-markdown-code-and-tables-keep-their-columns-in-proportional-text ()
  (agent-q-test-with-chat
    (agent-q-markdown-test--add
     "Prose, `inline`.\n\n| head | b |\n|---|---|\n| cell | 2 |\n\n```lisp\n(defun f (x) x)\n```\n")
    (dolist (text '("inline" "head" "cell" "defun" "(x) x"))
      (should (agent-q-markdown-test--fixed-p text)))
    (should (agent-q-markdown-test--fixed-p " | b"))
    (should-not (agent-q-markdown-test--fixed-p "Prose"))
    (should-not (assq 'agent-q-code face-remapping-alist))
    (variable-pitch-mode 1)
    (should (memq 'fixed-pitch (assq 'agent-q-code face-remapping-alist)))
    (variable-pitch-mode -1)
    (should-not (memq 'fixed-pitch (assq 'agent-q-code face-remapping-alist)))))

(provide 'agent-q-markdown-test)
;;; agent-q-markdown-test.el ends here
