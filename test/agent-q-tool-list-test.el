;;; agent-q-tool-list-test.el --- Tests of the views of tools, and of init files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a chat offers, the lists that show it, and definitions that are made
;; before the core is there.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-rules)

(defun agent-q-tool-list-test--tools ()
  "Return three tools of different levels and categories."
  (list (agent-q-test-tool "t_look" #'ignore :categories '(:t-a))
        (agent-q-test-tool "t_try" #'ignore :safety-level :cautious :categories '(:t-b))
        (agent-q-test-tool "t_erase" #'ignore :safety-level :dangerous :categories '(:t-a))))

(defmacro agent-q-tool-list-test--with-tools (&rest body)
  "Run BODY while three tools are registered."
  (declare (indent 0) (debug t))
  `(pcase-let ((`(,one ,two ,three) (agent-q-tool-list-test--tools)))
     (agent-q-test-with-tools (one two three) ,@body)))

;;;; What is offered

(ert-deftest agent-q-tool-list-offers-by-name-category-and-level ()
  (agent-q-tool-list-test--with-tools
    (pcase-dolist (`(,option . ,names)
                   '((("t_try") "t_try")
                     ((:t-a) "t_look" "t_erase")
                     (("t_try" :t-a) "t_look" "t_try" "t_erase")
                     ((:t-a (:max-safety-level :safe)) "t_look")
                     (none)))
      (let ((agent-q-offered-tools option))
        (should (equal (agent-q-registry-offered) names))))
    (let* ((agent-q-offered-tools nil)
           (offered (agent-q-registry-offered)))
      ;; What is built in comes in a usual choice, what was defined besides comes whole.
      (should (member "describe_symbol" offered))
      (should (member "t_look" offered))
      (should-not (member "disassemble_function" offered)))
    (let ((agent-q-offered-tools 'all))
      (should (equal (agent-q-registry-offered) (agent-q-list-registered-tools))))
    (let ((agent-q-offered-tools '((:max-safety-level :cautious))))
      (should (member "t_try" (agent-q-registry-offered)))
      (should-not (member "t_erase" (agent-q-registry-offered))))))

(ert-deftest agent-q-tool-list-says-what-can-not-be-offered ()
  "What is wrong in the option is said when the chat opens, and when a message is sent."
  (pcase-dolist (`(,option . ,said)
                 '(((7) . "can't hold 7")
                   ((:t-none) . "No tool has the category :t-none; there are :.*:xref")
                   (((:max-safety-level :t-none)) . "not a safety level")
                   (some . "can't hold some")))
    (let ((wrong (lambda (function)
                   (let ((agent-q-offered-tools option))
                     (should (string-match-p
                              said (error-message-string (should-error (funcall function)))))))))
      (funcall wrong #'agent-q-registry-offered)
      (funcall wrong (lambda () (agent-q-chat-open t)))
      (agent-q-test-with-chat
        (funcall wrong (lambda () (agent-q-test-send "/more_tools")))))))

(ert-deftest agent-q-tool-list-says-that-a-category-is-gone ()
  "A chat that offers a category whose last tool was removed says so with the next message."
  (agent-q-test-with-model "{\"turns\":[]}"
    (agent-q-test-with-chat
      (agent-q-tool-list-test--with-tools
        (setq-local agent-q-offered-tools '(:t-a))
        (agent-q-chat-send-configure))
      (should (string-match-p "No tool has the category :t-a"
                              (error-message-string (should-error (agent-q-test-send "hi"))))))))

(ert-deftest agent-q-tool-list-what-is-offered-reaches-the-model ()
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"fine\"}],
                    \"expect\":{\"contains\":[\"t_look\"],\"lacks\":[\"macroexpand_form\",\"t_try\"]}}]}"
    (agent-q-tool-list-test--with-tools
      (let ((agent-q-offered-tools '("t_look")))
        (agent-q-test-with-chat
          (agent-q-test-ask "hi")
          (should (string-suffix-p "\n\nfine\n" (agent-q-test-log))))))))

;;;; The list

(defmacro agent-q-tool-list-test--in-columns (width &rest body)
  "Run BODY where lists have WIDTH columns."
  (declare (indent 1) (debug t))
  `(cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () ,width)))
     ,@body))

(defun agent-q-tool-list-test--row (name)
  "Put point on the row of NAME and return its columns."
  (goto-char (point-min))
  (while (not (or (eobp) (equal (tabulated-list-get-id) name)))
    (forward-line 1))
  (append (tabulated-list-get-entry) nil))

(ert-deftest agent-q-tool-list-switches-tools-of-one-chat ()
  (agent-q-tool-list-test--with-tools
    (agent-q-test-with-chat
      (save-window-excursion
        (agent-q-tool-list-test--in-columns 200 (agent-q-list-tools))
        (should (equal (seq-take (agent-q-tool-list-test--row "t_try") 5)
                       '("+" "t_try" "cautious" "emacs-lisp" "t-b")))
        (should (equal (nth 3 (agent-q-tool-list-test--row "eval_form")) "built-in"))
        (agent-q-tool-list-test--row "t_try")
        (agent-q-test-press "SPC")
        (should (equal (car (agent-q-tool-list-test--row "t_try")) ""))
        (should (equal (car (agent-q-tool-list-test--row "t_look")) "+"))
        (with-current-buffer chat
          (should-not (member "t_try" agent-q-offered-tools))
          (should (member "t_look" agent-q-offered-tools)))
        (should-not (default-value 'agent-q-offered-tools))
        (agent-q-tool-list-test--row "t_try")
        (agent-q-test-press "t")
        (should (equal (car (agent-q-tool-list-test--row "t_try")) "+"))
        (kill-buffer)))
    ;; Outside a chat there is nothing to switch.
    (with-temp-buffer
      (save-window-excursion
        (agent-q-list-tools)
        (agent-q-tool-list-test--row "t_try")
        (should-error (agent-q-tool-list-toggle) :type 'user-error)
        (kill-buffer)))))

(ert-deftest agent-q-tool-list-shows-tools-of-images ()
  (agent-q-tool-list-test--with-tools
    (setf (agent-q-tool-origin one) '(image "sbcl"))
    (save-window-excursion
      (agent-q-tool-list-test--in-columns 200 (agent-q-list-tools))
      (should (equal (nth 3 (agent-q-tool-list-test--row "t_look")) "image sbcl"))
      (agent-q-tool-list-describe)
      (with-current-buffer "*agent-q tool*"
        (should (string-match-p "t_look is a safe tool (image sbcl)" (buffer-string))))
      (kill-buffer "*agent-q tools*"))))

(ert-deftest agent-q-tool-list-all-tools-can-be-switched-off ()
  (agent-q-test-with-chat
    (setq-local agent-q-offered-tools '("read_buffer"))
    (save-window-excursion
      (agent-q-list-tools)
      (agent-q-tool-list-test--row "read_buffer")
      (agent-q-tool-list-toggle)
      (kill-buffer))
    (should-not (agent-q-registry-offered))))

(ert-deftest agent-q-tool-list-sets-levels-and-shows-schemas ()
  (agent-q-tool-list-test--with-tools
    (unwind-protect
        (save-window-excursion
          (agent-q-list-tools)
          (agent-q-tool-list-test--row "t_look")
          (agent-q-tool-list-set-level 'dangerous)
          (should (equal (nth 2 (agent-q-tool-list-test--row "t_look")) "dangerous (yours)"))
          (should (eq (agent-q-tool-safety-level (agent-q-get-tool "t_look")) :dangerous))
          (agent-q-tool-list-set-level 'own)
          (should (equal (nth 2 (agent-q-tool-list-test--row "t_look")) "safe"))
          (agent-q-tool-list-describe)
          (with-current-buffer "*agent-q tool*"
            (should (string-match-p "t_look is a safe tool" (buffer-string)))
            (should (string-match-p "\"type\": \"object\"" (buffer-string)))))
      (customize-set-variable 'agent-q-tool-levels nil))))

(ert-deftest agent-q-tool-list-statistics-and-audit-are-shown ()
  (agent-q-tool-list-test--with-tools
    (agent-q-test-call "t_try" '(:text "to be audited"))
    (save-window-excursion
      (agent-q-tool-statistics)
      (should (equal (list "t_try" (nth 2 (agent-q-tool-list-test--row '("t_try" nil nil))))
                     '("t_try" "0")))
      (tabulated-list-sort 2)
      (kill-buffer)
      (agent-q-audit-log)
      (agent-q-test-find "t_try")
      (should (string-match-p "^[0-9][0-9]:[0-9:]* +t_try.*succeeded.*to be audited"
                              (buffer-substring (line-beginning-position)
                                                (line-end-position))))
      (agent-q-audit-describe)
      (with-current-buffer "*agent-q audit step*"
        (should (string-match-p "^  text: to be audited" (buffer-string)))
        (should (string-match-p "^time: [0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+$" (buffer-string)))
        (should (string-match-p "^decision: automatic\nby: level$" (buffer-string))))
      (kill-buffer "*agent-q audit*"))))

(ert-deftest agent-q-tool-list-tables-speak-in-words ()
  (let ((record (make-hash-table :test #'equal)))
    (puthash "tool" "effect/delete_file" record)
    (puthash "decision" "by_rule" record)
    (should (equal (agent-q-audit--cell "tool" record) "delete file"))
    (should (equal (agent-q-audit--cell "decision" record) "by rule")))
  (save-window-excursion
    (cl-letf (((symbol-function 'agent-q-tool-list--statistics) #'ignore))
      (agent-q-tool-statistics)
      (should (equal (buffer-string) "No tool was called yet.\n"))
      ;; A % in the name of a column would not be shown.
      (should-not (seq-some (lambda (column) (string-search "%" (nth 1 column)))
                            agent-q-text--list-columns))
      (kill-buffer))))

(ert-deftest agent-q-tool-list-lists-fit-their-windows ()
  (agent-q-tool-list-test--with-tools
    (agent-q-test-call "t_try" '(:text "to be audited"))
    (agent-q-rules-add '(:effect "deny" :tool "t_try" :scope (:for "chat" :which 4711)
                         :path "**/a-file-with-a-name-that-does-not-fit-a-line.lisp"))
    (save-window-excursion
      (dolist (width '(200 79 39))
        (dolist (list `((agent-q-list-tools "t_try" "Try") (agent-q-tool-statistics "t_try" " [0-9]+")
                        (agent-q-audit-log "t_try" "to be audited")
                        ;; In less than 42 what a rule applies to is cut at the window's edge.
                        ,@(and (> width 41) '((agent-q-rules "t_try" "file")))))
          (agent-q-tool-list-test--in-columns width
            (funcall (car list)))
          ;; All columns but the last one, which takes the rest, are within the window.
          (should (<= (agent-q-text--list-needs (mapcar (lambda (number) (nth number agent-q-text--list-columns))
                                                        agent-q-text--list-shown))
                      width))
          (agent-q-test-find (nth 1 list))
          (should (re-search-forward (nth 2 list) (line-end-position) t))
          (kill-buffer))))))

(ert-deftest agent-q-tool-list-names-are-whole-where-there-is-room ()
  (let ((name (make-string 30 ?n)))
    (with-temp-buffer
      (tabulated-list-mode)
      (dolist (width '(40 200))
        (agent-q-tool-list-test--in-columns width
          (agent-q-text-list-setup '((10 "Name" 10 t :most 40) (9 "Rest" 0 nil))
                                   (lambda () (list (list 1 (vector name "rest")))))
          (agent-q-text-list-print))
        ;; What is cut is there, under a sign.
        (should (eq (= width 200) (null (get-text-property 30 'display))))))))

(ert-deftest agent-q-tool-list-a-call-is-one-row-of-the-audit-log ()
  (agent-q-tool-list-test--with-tools
    (agent-q-test-call "t_try" '(:text "first"))
    (let ((before (length (agent-q-audit--calls (agent-q-audit-records)))))
      (agent-q-test-call "t_try" '(:text "once"))
      (agent-q-test-call "t_try" '(:text "once"))
      (should (= (+ 2 before) (length (agent-q-audit--calls (agent-q-audit-records))))))))

;;;; Init files

(defun agent-q-tool-list-test--in-new-emacs (&rest forms)
  "Evaluate FORMS in a new Emacs and return the value of the last one.
Only the entry point of the package is loaded there."
  (with-temp-buffer
    (let* ((log (expand-file-name "new-emacs/core.log" agent-q-test-directory))
           (status
            (call-process
             (expand-file-name invocation-name invocation-directory) nil t nil
             "-Q" "--batch" "-L" (expand-file-name "lisp" agent-q-test-root)
             "--eval" (prin1-to-string
                       `(let ((load-prefer-newer t))
                          (custom-set-variables
                           '(agent-q-tool-levels '(("t_init" . :cautious))))
                          (require 'agent-q-module)
                          (setq agent-q-log-file ,log)
                          (princ (format "\n>>%S" (progn ,@forms))))))))
      (unless (eq status 0)
        (ert-fail (buffer-string)))
      (goto-char (point-min))
      (search-forward ">>")
      (read (current-buffer)))))

(ert-deftest agent-q-tool-list-definitions-wait-for-the-core ()
  (should (equal
           (agent-q-tool-list-test--in-new-emacs
            '(push (lambda (phase &rest _) (push phase agent-q-test-phases))
                   agent-q-tool-execution-hooks)
            '(defvar agent-q-test-phases nil)
            '(agent-q-register-tool
              agent-q-registry
              (agent-q-define-tool "t_init" "From an init file."
                                   '((:name "text" :type :string))
                                   :handler (lambda (arguments)
                                              (upcase (gethash "text" arguments)))))
            '(agent-q-register-tool
              agent-q-registry
              (agent-q-define-tool "t_gone" "Not for long." nil :handler #'ignore))
            '(agent-q-unregister-tool "t_gone")
            '(agent-q-unregister-tool "eval_form")
            '(list
              ;; What is wrong is said at once, still without the core.
              (condition-case nil
                  (agent-q-define-tool "badName" "d" nil :handler #'ignore)
                (agent-q-invalid-tool 'invalid))
              (agent-q-tool-name (agent-q-get-tool "t_init"))
              (featurep 'agent-q-core)
              ;; Now it is needed.
              (mapcar #'agent-q-tool-result-content
                      (agent-q-execute-tool-calls-sync
                       '((:name "t_init" :arguments (:text "x")) (:name "t_gone")
                         (:name "eval_form"))))
              (featurep 'agent-q-core)
              (agent-q-tool-safety-level (agent-q-get-tool "t_init"))
              (car (last (agent-q-list-registered-tools)))
              (reverse agent-q-test-phases)))
           '(invalid "t_init" nil
                     ("X" "Unknown tool: t_gone" "Unknown tool: eval_form. Did you mean eval_in_frame?") t
                     :cautious "t_init" (:before :after)))))

(ert-deftest agent-q-tool-list-bad-levels-do-not-keep-the-core-from-starting ()
  (should (equal (agent-q-tool-list-test--in-new-emacs
                  '(setq agent-q-tool-levels '(("eval_form" . :harmless)))
                  '(require 'agent-q-events)
                  '(agent-q-events-ensure)
                  '(featurep 'agent-q-core))
                 t)))

(ert-deftest agent-q-tool-list-one-bad-definition-loses-no-other ()
  (should (equal
           (agent-q-tool-list-test--in-new-emacs
            '(require 'agent-q-registry)
            '(defun agent-q-test-register (name)
               (agent-q-register-tool
                agent-q-registry
                (agent-q-define-tool name "From an init file." nil
                                     :handler (lambda (_) "works"))))
            '(agent-q-test-register "t_one")
            '(agent-q-test-register "t_bad")
            ;; As it might have come past all checks.
            '(setf (agent-q-tool-description (agent-q-get-tool "t_bad")) (current-buffer))
            '(agent-q-test-register "t_two")
            '(push 'eval_form agent-q-registry--removed)
            '(condition-case nil
                 (agent-q-unregister-tool 'eval_form)
               (agent-q-error (push "read_buffer" agent-q-registry--removed)))
            '(list (mapcar #'agent-q-tool-result-content
                           (agent-q-execute-tool-calls-sync '((:name "t_one") (:name "t_two"))))
                   (agent-q-get-tool "read_buffer")
                   (with-current-buffer "*Warnings*"
                     (list (and (string-match-p "t_bad can't be used" (buffer-string)) t)
                           (and (string-match-p "eval_form can't be removed" (buffer-string))
                                t)))))
           '(("works" "works") nil (t t)))))

(ert-deftest agent-q-tool-list-starts-without-an-audit-log ()
  "Where no audit log can be written, what changes nothing runs, and nothing else does."
  (let ((directory (make-temp-file (expand-file-name "start" agent-q-test-directory) t)))
    (make-directory (expand-file-name "audit.jsonl" directory))
    (should (equal
             (agent-q-tool-list-test--in-new-emacs
              `(setq agent-q-log-file ,(expand-file-name "core.log" directory))
              '(dolist (level '(:safe :cautious))
                 (agent-q-register-tool
                  agent-q-registry
                  (agent-q-define-tool (format "t%s" (string-replace ":" "_" (symbol-name level)))
                                       "From an init file." nil
                                       :safety-level level :handler (lambda (_) "works"))))
              '(defun agent-q-test-both ()
                 (mapcar (lambda (result)
                           (if (agent-q-tool-result-success result)
                               (agent-q-tool-result-content result)
                             (and (string-match-p "audit.jsonl can't be written"
                                                  (agent-q-tool-result-error result))
                                  'refused)))
                         (agent-q-execute-tool-calls-sync
                          '((:name "t_safe") (:name "t_cautious")))))
              `(list (agent-q-test-both)
                     (with-current-buffer "*Warnings*"
                       (and (string-match-p "nothing runs that changes anything" (buffer-string))
                            t))
                     (progn
                       (delete-directory ,(expand-file-name "audit.jsonl" directory))
                       (agent-q-test-both))))
             '(("works" refused) t ("works" "works"))))))

(ert-deftest agent-q-tool-list-starts-where-nothing-can-be-written ()
  "With an `user-emacs-directory' that can't be written the core starts; its log is elsewhere."
  (skip-unless (file-directory-p "/proc"))
  (should (equal
           (agent-q-tool-list-test--in-new-emacs
            '(setq agent-q-log-file "/proc/agent-q/core.log")
            '(require 'agent-q-chat)
            '(with-current-buffer (agent-q-chat-open t)
               (list (and agent-q-session-number t)
                     (let ((log (plist-get (agent-q-core-status) :log-file)))
                       (prog1 (file-in-directory-p log temporary-file-directory)
                         (delete-file log)))
                     (agent-q-tool-result-success
                      (car (agent-q-execute-tool-calls-sync '((:name "get_project_root")))))
                     (with-current-buffer "*Warnings*"
                       (and (string-match-p "can't write its log /proc/agent-q/core.log"
                                            (buffer-string))
                            t)))))
           '(t t t t))))

;;;; What programs call

(defconst agent-q-tool-list-test--accessors
  '((agent-q-tool -p -name -description -parameters -required -safety-level -categories
                  -handler -schema -own-level -async -origin)
    (agent-q-tool-result -p -id -success -content -error -metadata)
    (agent-q-tool-spec -p -name -description -type-signature -schema -to-gram -from-gram
                       -to-json -from-json)
    (agent-q-tool-library -p -tools)
    (agent-q-agent -p -name -description -instruction -model -tools -from-gram)
    (agent-q -define-tool -register-tool -unregister-tool -get-tool -list-registered-tools
             -get-tools -tools-to-schema -tool-to-schema -register-builtin-tools -execute-tool-calls
             -execute-tool-calls-sync -cancel-tool-calls -tool-failure -format-tool-result
             -create-tool-specification -create-tool -empty-tool-library -library-register
             -library-lookup -bind-tool -bind-tool-explain -parse-type-signature
             -type-signature-to-json-schema -validate-tool-args
             -define-tool-from-signature -json-encode -json-parse -list-tools
             -tool-statistics -tool-statistics-data -audit-log -chat-use-agent))
  "The functions that programs call, by what their names begin with.")

(ert-deftest agent-q-tool-list-programs-need-only-the-entry-point ()
  (should-not
   (agent-q-tool-list-test--in-new-emacs
    `(seq-remove #'fboundp
                 (mapcan (lambda (entry)
                           (mapcar (lambda (end) (intern (format "%s%s" (car entry) end)))
                                   (cdr entry)))
                         ',agent-q-tool-list-test--accessors))))
  ;; An interpreter looks at the function before it evaluates the arguments.
  (pcase-dolist
      (`(,form . ,value)
       '(((agent-q-tool-name (agent-q-define-tool "t_new" "d" nil :handler #'ignore))
          . "t_new")
         ((agent-q-tool-result-content
           (car (agent-q-execute-tool-calls-sync '((:name "t_none")))))
          . "Unknown tool: t_none")
         ((agent-q-tool-spec-name
           (agent-q-create-tool-specification "n" "d" "()==>(::String)"))
          . "n")
         ((agent-q-tool-library-p (agent-q-empty-tool-library)) . t)
         ((agent-q-agent-name
           (agent-q-agent-from-gram "[a:Agent {instruction: \"i\", model: \"m/n\"}]"))
          . "a")))
    (should (equal (agent-q-tool-list-test--in-new-emacs form) value))))

;;;; What texts point to

(defun agent-q-tool-list-test--texts (file)
  "Return the strings in the source FILE, without those of its tests."
  (let ((texts nil))
    (with-temp-buffer
      (insert-file-contents file)
      (when (re-search-forward "^#\\[cfg(test)\\]" nil t)
        (delete-region (match-beginning 0) (point-max)))
      (goto-char (point-min))
      (while (re-search-forward "^ *\\(?://\\|;\\).*\\|#\\\\\"\\|'\\\\?\"'" nil t)
        (replace-match "" t t))
      (goto-char (point-min))
      (while (re-search-forward "\"\\(\\(?:[^\"\\]\\|\\\\\\(?:.\\|\n\\)\\)*\\)\"" nil t)
        (push (replace-regexp-in-string "\\\\\\(.\\)" "\\1" (match-string 1)) texts)))
    texts))

(defun agent-q-tool-list-test--unknown (text offered names)
  "Return those of NAMES that TEXT points to and that are not OFFERED.
Those that it says are called by call_tool may be left out."
  (let ((start 0) (unknown nil))
    (while (string-match "[a-z]+\\(?:_[a-z]+\\)+" text start)
      (let ((name (match-string 0 text)))
        (setq start (match-end 0))
        (and (member name names)
             (not (equal name text))
             (not (member name offered))
             (not (string-search "call_tool" (substring text 0 (match-beginning 0))))
             (push name unknown))))
    unknown))

(ert-deftest agent-q-tool-list-texts-name-what-is-offered ()
  "Results point to tools that are offered, in chats and to other agents, or say call_tool."
  (with-syntax-table emacs-lisp-mode-syntax-table
    (let* ((agent-q-offered-tools nil)
           (usual (agent-q-registry-offered))
           (image (with-temp-buffer
                    (insert-file-contents "src/mcp/tools.rs")
                    (re-search-forward "IMAGE: &\\[&str\\] = &\\(\\[[^]]*\\)\\]")
                    (split-string (match-string 1) "[^a-z_]+" t)))
           (both (seq-intersection usual image))
           (tools (seq-filter (lambda (tool) (equal "built-in" (plist-get tool :origin)))
                              (agent-q-core-tools)))
           (names (mapcar (lambda (tool) (plist-get tool :name)) tools))
           (descriptions (mapcar (lambda (tool) (plist-get tool :description)) tools)))
      (should (member "compile_file" both))
      (dolist (offered (list usual image))
        (dolist (tool tools)
          (when (member (plist-get tool :name) offered)
            (should-not (agent-q-tool-list-test--unknown (plist-get tool :description)
                                                         offered names)))))
      (dolist (file (append (directory-files-recursively "src/builtin" "\\.rs\\'")
                            (directory-files-recursively "src/image" "\\.rs\\'")
                            (directory-files-recursively "src/files" "\\.rs\\'")
                            (directory-files-recursively "lisp/image" "\\.lisp\\'")))
        (dolist (text (agent-q-tool-list-test--texts file))
          (unless (or (member text descriptions)
                      (string-suffix-p "more.rs" file))
            (let ((unknown (agent-q-tool-list-test--unknown text both names)))
              ;; Why a tool can't do something begins with its name.
              (unless (seq-some (lambda (name) (string-prefix-p name text)) unknown)
                (should (equal (list file text nil) (list file text unknown)))))))))))

(provide 'agent-q-tool-list-test)
;;; agent-q-tool-list-test.el ends here
